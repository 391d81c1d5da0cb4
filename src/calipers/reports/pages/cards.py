"""Cards of a page: metrics by family, the groups that a card has lines for, and their bars.

A bar places a value and its interval on the metric's scale, in percent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from calipers.metrics import PROFILES, metric_named

if TYPE_CHECKING:
    from calipers.metrics import Metric
    from calipers.scores.result import Group, Measured

_USER_DEFINED = "own"
_TITLES = {
    "reasoning": "Reasoning",
    "tiers": "Tiers and cost",
    "scenarios": "Scenarios",
    "agents": "Agents",
    "own": "Of your own",
}
_MAIN_METRICS = {
    "reasoning": (
        *("accuracy", "ece", "brier", "math_usr", "stability"),
        *("latency_p95_ms", "total_tokens_mean", "cot_tokens_mean"),
    ),
    "tiers": ("pass_rate", "composite_score", "impl_rate", "cost_of_pass", "cost_usd"),
    "scenarios": (
        *("pass_rate", "weighted_pass_rate", "safety_rate", "behavior_coverage"),
        *("final_score", "precision", "recall"),
    ),
    "agents": (
        *("agent_composite", "task_success", "output_similarity", "technical_accuracy"),
        *("tool_selection_accuracy", "path_convergence", "communication_overhead"),
    ),
    "own": (),
}


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """Some metrics that belong together: those that come first, and the others."""

    name: str
    first: tuple[str, ...]
    others: tuple[str, ...]


def get_family_title(name: str) -> str:
    """Return the family's name for people."""
    return _TITLES.get(name, name)


def group_by_family(names: Collection[str]) -> Iterator[MetricFamily]:
    """Yield the metrics by family, each once; none is first if its main ones are missing."""
    told = {profile: len({*names}.intersection(first)) for profile, first in _MAIN_METRICS.items()}
    home = {name: _choose_family(name, told) for name in names}
    for profile in dict.fromkeys((*PROFILES, *home.values(), _USER_DEFINED)):
        own = [name for name in names if home[name] == profile]
        first = tuple(name for name in _MAIN_METRICS.get(profile, ()) if name in own)
        others = tuple(name for name in own if name not in first)
        if own:
            yield MetricFamily(profile, first, others)


def _choose_family(name: str, told: Mapping[str, int]) -> str:
    """Return the family that has it as a main metric and most of these; else its first."""
    profiles = metric_named(name).profiles or (_USER_DEFINED,)
    main = [each for each in profiles if name in _MAIN_METRICS.get(each, ())]
    return max(main, key=lambda each: told[each]) if main else profiles[0]


@dataclass(frozen=True, slots=True)
class CardGroups:
    """The groups to show, and what to say about the others."""

    shown: tuple[Group, ...]
    note: str | None
    measured: tuple[Measured, ...]  # of all groups that have the metric


def choose_groups(name: str, groups: Sequence[Group], most: int) -> CardGroups:
    """Return the groups that have the metric, or the best and the worst of them."""
    having = [group for group in groups if name in group.metrics]
    measured = tuple(group.metrics[name] for group in having)
    if len(having) <= most:
        return CardGroups(tuple(having), None, measured)
    better, half = metric_named(name).better, most // 2
    known = sorted(
        (group for group in having if group.metrics[name].value is not None),
        key=lambda group: group.metrics[name].value or 0.0,
        reverse=better == "higher",
    )
    if len(known) <= most:
        return CardGroups(tuple(known), f"the {len(known)} of {len(having)} with a value", measured)
    ends = ("highest", "lowest") if better == "higher" else ("lowest", "highest")
    note = f"the {half} {ends[0]} and the {half} {ends[1]} of {len(having)} groups"
    return CardGroups((*known[:half], *known[-half:]), note, measured)


_BAR_ROOM = 1.1  # beyond the largest number, where the metric itself has no end


@dataclass(frozen=True, slots=True)
class Bar:
    """Places from 0 to 100 on the scale."""

    value: float
    low: float
    width: float


def choose_scale(metric: Metric, several: Iterable[Measured]) -> tuple[float, float]:
    """Return the range that the bars of these values have to show."""
    low, high = metric.range
    ends = [
        end
        for each in several
        for end in (each.value, each.low, each.high)
        if end is not None and isfinite(end)
    ]
    low = low if isfinite(low) else min(ends, default=0.0)
    high = high if isfinite(high) else _BAR_ROOM * max(ends, default=1.0)
    return (low, high) if high > low else (low, low + 1)


def make_bar(measured: Measured, scale: tuple[float, float]) -> Bar | None:
    """Return the bar; None without a finite value."""
    if measured.value is None or not isfinite(measured.value):
        return None
    low = measured.value if measured.low is None else measured.low
    high = measured.value if measured.high is None else measured.high
    start, end = _place(low, scale), _place(high, scale)
    return Bar(_place(measured.value, scale), start, round(end - start, 2))


def _place(value: float, scale: tuple[float, float]) -> float:
    low, high = scale
    return round(100 * min(1.0, max(0.0, (value - low) / (high - low))), 2)
