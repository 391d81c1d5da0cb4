"""Tiers side by side in words: grade, median composite, uplift and test, each with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from calipers.metrics import metric_named
from calipers.metrics.cost.tiers import TIER
from calipers.reports.figures import NOTHING, figure, group_name, printable, reach, with_interval

if TYPE_CHECKING:
    from calipers.scores.results import Bounded, Group, Score, Tiers
    from calipers.scores.tier_results import TierTest

WARNED = " !"  # behind what failed calls have a part in

HEADS = (
    "tier",
    "grade",
    "median composite",
    "uplift",
    "difference of means",
    "p (Holm)",
    "effect size",
)
_LEAST_P = 0.0001
_NAMED = 4  # in a note
_SPREADS = {
    "pass_rate_variance": "variance of pass rates (medians)",
    "pass_rate_mean_variance": "variance of pass rates (means)",
    "cost_variance": "variance of median costs",
    "cost_delta": "highest − lowest median cost",
}


def mark(group: Group) -> str:
    """Return what stands behind a figure of a group of which calls failed; else nothing."""
    return "" if group.warning is None else WARNED


def cell_text(name: str, group: Group) -> str:
    """Return a metric's value with its interval; a cost of pass is marked where calls failed."""
    text = with_interval(group.metrics[name], metric_named(name).unit)
    return text + mark(group) if name == "cost_of_pass" else text


def grade_text(group: Group) -> str:
    """Return the grade, the grades it may also be, and a mark where calls failed."""
    if group.grade is None:
        return NOTHING
    between = "" if group.grade_interval is None else f" [{', '.join(group.grade_interval)}]"
    return f"{group.grade}{between}{mark(group)}"


def bounded_text(found: Bounded | None) -> str:
    """Return a value and how far its interval reaches."""
    if found is None or found.value is None:
        return NOTHING
    if found.low is None or found.high is None:
        return figure(found.value)
    return f"{figure(found.value)} {reach(found.value, found.low, found.high, None)}"


def uplift_text(tiers: Tiers, tier: str) -> str:
    """Return an uplift with its interval, in percent of the baseline's median."""
    uplift, around = tiers.uplift.get(tier), tiers.uplift_intervals.get(tier)
    warned = WARNED if {tier, tiers.baseline} & set(tiers.warnings) else ""
    if uplift is None:
        return NOTHING
    if around is None or around.low is None or around.high is None:
        return _percent(uplift) + warned
    return f"{_percent(uplift)} [{_percent(around.low)}, {_percent(around.high)}]{warned}"


def _percent(share: float) -> str:
    return f"{round(share, 3) + 0:+.1%}".replace("-", "−")


def evidence_texts(test: TierTest | None) -> tuple[str, str, str]:
    """Return the difference of means, the adjusted p and the effect size of a tier's test."""
    if test is None or test.difference is None:
        return NOTHING, NOTHING, NOTHING
    difference = f"{test.difference:+.4f}".replace("-", "−")
    if test.low is not None and test.high is not None:
        difference += f" {reach(test.difference, test.low, test.high, None)}"
    p = NOTHING if test.p_holm is None else _p(test.p_holm)
    effect = NOTHING if test.effect is None else f"{test.effect:+.2f} ({test.effect_name})"
    return difference, p, effect.replace("-", "−")


def _p(p: float) -> str:
    return f"< {_LEAST_P}" if p < _LEAST_P else f"{p:.4f}"


def tier_rows(tiers: Tiers, groups: Sequence[Group]) -> Iterator[tuple[str, ...]]:
    """Return a row of texts per tier, under `HEADS`."""
    for group in groups:
        tier = str(group.by[TIER])
        yield (
            printable(tier),
            grade_text(group),
            bounded_text(group.median_composite),
            uplift_text(tiers, tier),
            *evidence_texts(tiers.tests.get(tier)),
        )


def tier_groups(groups: Sequence[Group], tiers: Tiers) -> list[Group]:
    """Return the groups whose tiers are compared: those that are alike in all else."""
    return [
        group
        for group in groups
        if group.by.get(TIER) is not None
        and {name: value for name, value in group.by.items() if name != TIER} == dict(tiers.by)
    ]


def title_of(tiers: Tiers) -> str:
    """Return the heading of one comparison."""
    title = f"Tiers against {printable(tiers.baseline)}"
    return f"{title}: {group_name(tiers.by)}" if tiers.by else title


def spread_rows(tiers: Tiers) -> Iterator[tuple[str, str]]:
    """Return what varies between the tiers, with its interval."""
    for name, label in _SPREADS.items():
        value, around = getattr(tiers, name), tiers.intervals.get(name)
        text = NOTHING if value is None else f"{value:.4g}"
        if around is not None and around.low is not None and around.high is not None:
            text += f" [{around.low:.4g}, {around.high:.4g}]"
        yield label, text


def tier_notes(tiers: Tiers) -> Iterator[str]:
    """Return how intervals and tests were had, and the reason for each that is missing."""
    hows = {each.interval for each in tiers.uplift_intervals.values() if each.interval}
    tests = {each.test for each in tiers.tests.values() if each.test}
    if hows:
        yield f"intervals of uplift: {'; '.join(sorted(hows))}"
    if tests:
        yield f"p: {'; '.join(sorted(tests))}, adjusted for all tiers (Holm)"
    by_reason: dict[str, list[str]] = {}
    for what, reason in tiers.reasons.items():
        by_reason.setdefault(reason, []).append(what)
    for reason, whats in by_reason.items():
        more = f" and {len(whats) - _NAMED} more" if len(whats) > _NAMED else ""
        yield f"{NOTHING} {', '.join(map(printable, whats[:_NAMED]))}{more}: {printable(reason)}"


def warning_lines(score: Score) -> Iterator[str]:
    """Return a warning per group of which calls failed."""
    for group in score.groups:
        if group.warning is not None:
            yield f"{WARNED.strip()} {group_name(group.by)}: {group.warning}"
