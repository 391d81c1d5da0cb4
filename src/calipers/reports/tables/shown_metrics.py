"""Which metrics people see, in which order, and how each is written.

A policy's metrics come first, then accuracy, pass rate, cost and latency; the rest is there on
demand. Rates are written in percent, money per 1,000 calls. JSON, CSV and data frames have every
metric in full precision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calipers.metrics import metric_named
from calipers.metrics.families.agents import are_parts_known
from calipers.metrics.families.judged import SCORES
from calipers.metrics.thresholds import read_scale
from calipers.reports.number_format import (
    PLAIN,
    Estimated,
    Form,
    choose_form,
    format_figure,
)
from calipers.scores.result import find_column, list_metric_names

if TYPE_CHECKING:
    from calipers.scores.result import Group, Measured, Score

COMPOSITE = "agent_composite"
MAIN = ("accuracy", "pass_rate", COMPOSITE, "final_score")
_USUAL = (
    *("accuracy", "pass_rate", "composite_score", COMPOSITE, "final_score"),
    *("cost_of_pass", "cost_usd", "latency_p95_ms"),
)
_LABELS = {"error_rate": "wrong answers"}  # failed calls are something else
_PER_THOUSAND = {"cost_usd": "per 1,000 calls", "cost_of_pass": "per 1,000 passes"}
_FEW = 8  # metrics that are all shown


def label_metric(name: str) -> str:
    """Return what people read for a metric: its name, unless that would mislead."""
    return _LABELS.get(name, name)


def is_rate(name: str) -> bool:
    """Say whether a metric is written in percent."""
    return read_scale(metric_named(name)).is_ratio


def is_usual(name: str) -> bool:
    """Say whether most people ask for a metric; so they do for those of judges and their own."""
    return name in _USUAL or name in SCORES or not metric_named(name).profiles


def choose_metric_form(name: str, estimates: Iterable[Estimated], own: Form = PLAIN) -> Form:
    """Return how the values of a metric are written: rates in percent, cost per 1,000 calls."""
    kind = Form(percent=is_rate(name), thousand=name in _PER_THOUSAND, signed=own.signed)
    return choose_form(estimates, kind)


def choose_difference_form(name: str) -> Form:
    """Return how a difference of two values of a metric is written: of rates, in points."""
    return Form(signed=True, points=is_rate(name), thousand=name in _PER_THOUSAND)


def get_unit(name: str) -> str | None:
    """Return the unit that stands behind a metric's values."""
    return _PER_THOUSAND.get(name) or metric_named(name).unit


def format_measured(name: str, measured: Measured, form: Form | None = None) -> str:
    """Return a metric's value with its interval and unit."""
    form = choose_metric_form(name, [measured]) if form is None else form
    unit = get_unit(name)
    shown = format_figure(measured.value, measured.low, measured.high, form)
    return f"{shown} {unit}" if unit and measured.value is not None else shown


def drop_restated(names: Iterable[str], *, named: Collection[str] = ()) -> list[str]:
    """Return the metrics without those that are 1 − another of them, unless they are named.

    >>> drop_restated(["accuracy", "usr", "error_rate"], named=["usr"])
    ['accuracy', 'usr']
    """
    every = list(names)
    known = [metric_named(name) for name in every]
    means = [each.averaged for each in known if each.averaged is not None and not each.complement]
    return [
        metric.name
        for metric in known
        if metric.name in named or not (metric.complement and metric.averaged in means)
    ]


def list_shown(score: Score, first: Sequence[str] = ()) -> list[str]:
    """Return the metrics that people may see, those that matter most first.

    Metrics that the user named keep their order. `usr` and `error_rate` are left out beside
    accuracy, and the agents' composite where it lacks its parts, unless they are named or in
    `first`. JSON, CSV and data frames have all of them.
    """
    every = list_metric_names(score.groups)
    if named := score.settings.get("metrics"):
        return drop_restated(every, named=(*named, *first))
    asked = {*first}
    kept = [
        name
        for name in drop_restated(every, named=asked)
        if name != COMPOSITE or name in asked or is_composite_shown(score)
    ]
    leading = [name for name in (*first, *_USUAL) if name in kept]
    return list(dict.fromkeys([*leading, *kept]))


def put_usual_first(names: Iterable[str], named: Collection[str] = ()) -> list[str]:
    """Return metrics with the usual ones first; those that the user named keep their order."""
    every = list(names)
    return (
        every
        if named
        else [*(n for n in _USUAL if n in every), *(n for n in every if n not in _USUAL)]
    )


def is_composite_shown(score: Score) -> bool:
    """Say whether the agents' composite was asked for, or any group has most of its parts."""
    if COMPOSITE in (score.settings.get("metrics") or ()):
        return True
    return score.settings.get("profile") == "agents" or any(map(has_parts, score.groups))


def has_parts(group: Group) -> bool:
    """Say whether most parts of the agents' composite have values in the group."""
    return are_parts_known(name for name, each in group.metrics.items() if each.value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChoice:
    """The metrics of a table: those that have rows, and what is said of the others."""

    rows: tuple[str, ...]
    explained: tuple[str, ...]  # of which it is said why there is no value, or no bound
    alike: tuple[str, ...] = ()  # the same in all groups
    folded: tuple[str, ...] = ()  # shown on demand

    def list_notes(self, groups: Sequence[Group]) -> Iterator[str]:
        """Yield a line on metrics that are the same in all groups, and one on those not shown."""
        if self.alike:
            told = (f"{label_metric(n)} {_show(groups[0].metrics[n], n)}" for n in self.alike)
            yield f"the same in all {len(groups)}: {', '.join(told)}"
        if self.folded:
            names = ", ".join(map(label_metric, self.folded))
            count = f"{len(self.folded)} more metric{'s' * (len(self.folded) > 1)}"
            yield f"{count} (calipers score --all): {names}"


def _show(measured: Measured, name: str) -> str:
    return format_measured(name, measured)


def choose_rows(score: Score, first: Sequence[str] = ()) -> MetricChoice:
    """Return which metrics have a row where a score is printed.

    All that the user named, or that a profile holds; else the policy's, the usual ones, those of
    judges and those of the user's own, or all if they are few. One that is the same in all groups
    has no row of its own.
    """
    shown = [name for name in list_shown(score, first) if _has_value(score, name)]
    asked = {*first, *(score.settings.get("metrics") or ())}
    whole = score.whole or score.settings.get("metrics") or score.settings.get("profile")
    folded = {name for name in shown if not whole and not _is_wanted(name, asked)}
    if len(shown) <= _FEW or len(folded) == 1:
        folded = set()
    elif len(shown) == len(folded):  # nothing usual: the first
        folded = {*shown[_FEW // 2 :]}
    kept = [name for name in shown if name not in folded]
    alike = [name for name in kept if name not in {*asked, *_USUAL} and _is_alike(score, name)]
    if not whole:  # what is the same everywhere is not worth a line either
        folded, alike, kept = {*folded, *alike}, [], [name for name in kept if name not in alike]
    return MetricChoice(
        rows=tuple(name for name in kept if name not in alike),
        explained=tuple(
            name
            for name in list_shown(score, first)
            if whole or name in kept or _is_wanted(name, asked)
        ),
        alike=tuple(alike),
        folded=tuple(name for name in shown if name in folded),
    )


def _is_wanted(name: str, asked: Collection[str]) -> bool:
    return name in asked or is_usual(name)


def _has_value(score: Score, name: str) -> bool:
    if (column := find_column(score.groups, name)) is not None:
        return bool(column.has_value.any())
    found = (group.metrics.get(name) for group in score.groups)
    return any(each is not None and each.value is not None for each in found)


def _is_alike(score: Score, name: str) -> bool:
    if (column := find_column(score.groups, name)) is not None:
        return bool(column.is_alike)
    found = [group.metrics.get(name) for group in score.groups]
    told = {None if each is None else (each.value, each.low, each.high) for each in found}
    return len(score.groups) > 1 and len(told) == 1
