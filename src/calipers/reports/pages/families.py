"""Metrics by family, the main ones first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from calipers.metrics import PROFILES, metric_named
from calipers.support.quick_dataclasses import dataclass

_OWN = "own"
_TITLES = {
    "reasoning": "Reasoning",
    "tiers": "Tiers and cost",
    "scenarios": "Scenarios",
    "agents": "Agents",
    "own": "Of your own",
}
_FIRST = {
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


def get_title(name: str) -> str:
    """Return the family's name for people."""
    return _TITLES[name]


def group_by_family(names: Collection[str]) -> Iterator[MetricFamily]:
    """Yield the metrics by family, each once; none is first if its main ones are missing."""
    told = {profile: len({*names}.intersection(first)) for profile, first in _FIRST.items()}
    home = {name: _choose_family(name, told) for name in names}
    for profile in (*PROFILES, _OWN):
        own = [name for name in names if home[name] == profile]
        first = tuple(name for name in _FIRST[profile] if name in own)
        others = tuple(name for name in own if name not in first)
        if own:
            yield MetricFamily(profile, first, others)


def _choose_family(name: str, told: Mapping[str, int]) -> str:
    """Return the family that has it as a main metric and most of these; else its first."""
    profiles = metric_named(name).profiles or (_OWN,)
    main = [each for each in profiles if name in _FIRST[each]]
    return max(main, key=lambda each: told[each]) if main else profiles[0]
