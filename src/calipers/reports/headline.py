"""The answer that a report begins with: the verdict, or which system is best, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calipers.metrics import metric_named
from calipers.reports.figures import (
    Form,
    choose_form,
    format_figure,
    group_name,
    join_some,
    strip_controls,
)
from calipers.reports.gate import as_fractions, gate_further, gate_summary, name_check
from calipers.reports.ranking import MAIN, describe_best, make_sentence
from calipers.reports.remarks import list_frontier
from calipers.reports.tiers import describe_tiers, select_groups
from calipers.runs.report_data import NOT_RANKED
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from calipers.gates.result import GateResult
    from calipers.runs.report_data import Report
    from calipers.scores.results import Group, Score

_ELSE = ("cost_usd", "latency_p95_ms")  # shown if none of the main metrics exists
_TOLD = 4  # groups that are named one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A verdict in a word, a sentence, and the numbers behind it."""

    verdict: str  # of the gate; `incomplete`, or `none` where nothing was decided
    summary: str
    reasons: tuple[str, ...]

    @property
    def word(self) -> str:
        """The verdict for people."""
        return "Result" if self.verdict == "none" else self.verdict.capitalize()


def make_headline(report: Report) -> Headline:
    """Return the gate's verdict with its reasons; without one, which system is best."""
    best, further = _list_best(report), [*_list_tiers(report.score), *_list_lost(report.score)]
    if (gate := report.gate) is not None:
        reasons = (*best, *_list_checks(gate), *further)
        return Headline(verdict=gate.verdict, summary=gate_summary(gate), reasons=reasons)
    main = [*best, *_list_main_numbers(report)]
    further = [*_list_unranked(report), *further]
    if report.incomplete is not None:
        said = f"{report.incomplete}. Run the suite again to finish it."
        return Headline(verdict="incomplete", summary=said, reasons=(*main, *further))
    answer = main[0] if main else "No main metric has a value."
    undecided = "No policy was given, so nothing was decided."
    return Headline(verdict="none", summary=answer, reasons=(*main[1:], *further, undecided))


def _list_best(report: Report) -> Iterator[str]:
    if report.ranking is not None:
        yield make_sentence(describe_best(report.ranking.metrics[0]))


def _list_unranked(report: Report) -> Iterator[str]:
    if report.ranking is None:
        yield from (make_sentence(each) for each in report.notices if each.startswith(NOT_RANKED))


def _list_checks(gate: GateResult) -> Iterator[str]:
    yield from map(as_fractions, gate_further(gate))
    for verdict in ("fail", "inconclusive", "warn"):
        for check in gate.checks:
            if check.verdict == verdict and check.reason:
                yield f"{name_check(check)}: {as_fractions(check.reason)}"


def _list_tiers(score: Score) -> Iterator[str]:
    for tiers in score.tiers[:_TOLD]:
        groups = select_groups(score.groups, tiers)
        yield from describe_tiers(tiers, groups, score.settings["confidence"])
    if score.tiers and score.frontier is not None:
        yield make_sentence(next(iter(list_frontier(score.frontier))))


def _list_lost(score: Score) -> Iterator[str]:
    if errors := sum(group.errors for group in score.groups):
        yield f"{errors:,} of {score.records:,} calls failed{_name_most(score, 'errors')}."
    if truncated := sum(group.truncated for group in score.groups):
        most = _name_most(score, "truncated")
        yield f"{truncated:,} of {score.records:,} replies were truncated{most}."
    if flagged := sum(group.flagged or 0 for group in score.groups):
        yield f"Judged records with text that seems to address the judge: {flagged:,}."


def _name_most(score: Score, name: str) -> str:
    """Return whose calls these are, the most first; empty where there is one group."""
    counts = {group_name(group.by): getattr(group, name) for group in score.groups}
    having = sorted((each for each in counts if counts[each]), key=lambda each: -counts[each])
    if len(counts) == 1:
        return ""
    return f" ({join_some([f'{strip_controls(each)} {counts[each]:,}' for each in having], _TOLD)})"


def _list_main_numbers(report: Report) -> Iterator[str]:
    """Yield the first main metrics; that by which systems are ranked is told already."""
    score, ranking = report.score, report.ranking
    ranked = None if ranking is None else ranking.metrics[0].metric
    names = [name for name in (*MAIN, *_ELSE) if has_value(score, name)][:2]
    for name in names:
        if name != ranked:
            yield f"{name}: {'; '.join(_describe_metric(score, name))}."


def has_value(score: Score, name: str) -> bool:
    """Say whether any group has a value of the metric."""
    return any(_has_value(group, name) for group in score.groups)


def _has_value(group: Group, name: str) -> bool:
    found = group.metrics.get(name)
    return found is not None and found.value is not None


def _describe_metric(score: Score, name: str) -> Iterator[str]:
    """Yield a metric of every group or, of many, of those at both ends."""
    known = [group for group in score.groups if _has_value(group, name)]
    form = choose_form(group.metrics[name] for group in known)
    if len(known) > _TOLD:
        ordered = sorted(known, key=lambda group: group.metrics[name].value or 0.0)
        least, most = (
            f"{_format_value(group, name, form)} ({group_name(group.by)})"
            for group in (ordered[0], ordered[-1])
        )
        yield f"from {least} to {most}"
        return
    for group in known:
        of = f"{group_name(group.by)} " if group.by else ""
        yield f"{of}{_format_value(group, name, form)}"


def _format_value(group: Group, name: str, form: Form) -> str:
    unit, found = metric_named(name).unit, group.metrics[name]
    return f"{format_figure(found.value, found.low, found.high, form)}{f' {unit}' if unit else ''}"
