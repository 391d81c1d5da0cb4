"""A verdict one can see: which system is best, how sure that is, and what each of them meets.

`make_verdict` puts together what a gate, a score and a ranking know of each system, as far as there
are; the terminal, a pull request and the report show the same sentences and the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, cast

from calipers.metrics import catalogue, metric_named
from calipers.reports.number_format import (
    NOTHING,
    Form,
    format_dollars,
    format_figure,
    format_group,
    format_p,
    join_some,
    shorten_name,
    show_name,
)
from calipers.reports.table import BarSpan, Cell, Column, Kind, Table, Tone, make_rows
from calipers.reports.tables.gate_tables import (
    UNSURE,
    format_check_value,
    is_of_metric,
    is_unsure,
    label_check,
    make_span,
    put_blocking_first,
)
from calipers.reports.tables.shown_metrics import (
    MAIN,
    choose_difference_form,
    choose_metric_form,
    is_rate,
    label_metric,
)

if TYPE_CHECKING:
    from calipers.comparisons.rank_result import MetricRanking, RankedSystem, Ranking
    from calipers.gates.result import Check, GateResult, GateVerdict
    from calipers.scores.result import Group, Measured, Score

_NAMED = 3  # checks, or systems, in a sentence
_MOST = 30  # systems that have a row
_ACCURACY = "accuracy"
_COST = "cost_usd"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStanding:
    """One system: its rank, its checks, and its value of the metric that systems are ranked by."""

    by: Mapping[str, Any]
    checks: tuple[Check, ...] = ()  # of the gate
    group: Group | None = None  # of the score
    ranked: RankedSystem | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return format_group(self.by)

    @property
    def deciding(self) -> tuple[Check, ...]:
        """The checks that can keep it from passing."""
        return tuple(check for check in self.checks if check.level != "warning")

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that do keep it from passing."""
        return tuple(check for check in self.checks if check.blocks)

    @property
    def met(self) -> int:
        """How many of the deciding checks it meets."""
        return len(self.deciding) - len(self.failed)

    def find_check(self, name: str) -> Check | None:
        """Return the check of a metric, the one that blocks first."""
        found = (
            check
            for check in self.checks
            if check.name == name
            and check.threshold
            and (is_of_metric(check) or check.level == "composite")
        )
        return next(iter(sorted(found, key=lambda check: check.level == "warning")), None)

    def get_measured(self, name: str) -> Measured | None:
        """Return a metric's value in the score."""
        return None if self.group is None else self.group.metrics.get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictOverview:
    """What was decided, and the systems from the best down."""

    verdict: GateVerdict | None  # of the gate; None where nothing was decided
    metric: str | None  # by which the systems are compared
    standings: tuple[SystemStanding, ...]
    ranked: MetricRanking | None = None

    @property
    def best(self) -> SystemStanding:
        """The system that is best, or comes closest to passing."""
        return self.standings[0]


def make_verdict(
    gate: GateResult | None, score: Score | None = None, ranking: Ranking | None = None
) -> VerdictOverview:
    """Return the verdict on every system that the gate or the score knows."""
    checks: dict[tuple[Any, ...], list[Check]] = {}
    bys: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for check in () if gate is None else gate.checks:
        checks.setdefault(_make_key(check.by), []).append(check)
        bys.setdefault(_make_key(check.by), check.by)
    groups = {_make_key(group.by): group for group in (() if score is None else score.groups)}
    if checks.keys() <= groups.keys() or not checks:  # the gate may decide on all of them at once
        bys = {key: group.by for key, group in groups.items()} or bys
    ranked = None if ranking is None else ranking.metrics[0]
    systems = {_make_key(each.by): each for each in (() if ranked is None else ranked.systems)}
    if len(bys) > 1 and not systems.keys() <= bys.keys():  # models, without their prompts
        ranked, systems = None, {}
    standings = [
        SystemStanding(
            by=by,
            checks=tuple(checks.get(key, ())),
            group=groups.get(key),
            ranked=systems.get(key),
        )
        for key, by in (bys or {(): {}}).items()
    ]
    metric = ranked.metric if ranked is not None else _choose_metric(standings, gate)
    standings.sort(key=lambda each: _order(each, metric))
    return VerdictOverview(
        verdict=None if gate is None else gate.verdict,
        metric=metric,
        standings=tuple(standings),
        ranked=ranked,
    )


def _make_key(by: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((name, None if by[name] is None else str(by[name])) for name in sorted(by))


def _choose_metric(standings: Sequence[SystemStanding], gate: GateResult | None) -> str | None:
    """Return the main metric that has a value or a check; else the first check's of a metric."""
    for name in put_blocking_first(MAIN, gate):
        if any(_get_value(each, name) is not None for each in standings):
            return name
    checks = (check for each in standings for check in each.checks)
    names = (check.name for check in checks if is_of_metric(check) and make_span(check))
    return next(names, None)


def _get_value(standing: SystemStanding, name: str) -> float | None:
    measured, check = standing.get_measured(name), standing.find_check(name)
    if measured is not None:
        return measured.value
    return None if check is None else check.value


def _order(standing: SystemStanding, metric: str | None) -> tuple[float, ...]:
    """Return what systems are ordered by: checks missed, then the rank, then the value."""
    missed = len(standing.failed)
    if standing.ranked is not None:
        return missed, standing.ranked.rank
    value = None if metric is None else _get_value(standing, metric)
    lower = metric is not None and _is_lower_better(metric)
    return missed, inf if value is None else value if lower else -value


def describe_verdict(verdict: VerdictOverview) -> str:
    """Return one sentence: which system is best or comes closest, or how many checks one meets."""
    best, several = verdict.best, len(verdict.standings) > 1
    if verdict.verdict is None:
        return _describe_unjudged(verdict)
    if not several:
        return _describe_one(best)
    passing = [each for each in verdict.standings if not each.failed]
    if not passing:
        return f"No system meets the policy; {shorten_name(best.name)} comes closest."
    if len(passing) == len(verdict.standings):
        everybody = "Both" if len(passing) == 2 else f"All {len(passing)}"  # noqa: PLR2004
        leaders = "" if verdict.metric is None else f"; {_name_leaders(verdict)}"
        return f"{everybody} systems meet the policy{leaders}."
    names = join_some([each.name for each in passing], _NAMED)
    verb = "meets" if len(passing) == 1 else "meet"
    return f"{len(passing)} of {len(verdict.standings)} systems {verb} the policy: {names}."


def _describe_one(best: SystemStanding) -> str:
    """Return what one system meets, and what keeps it from passing."""
    total = len(best.deciding)
    if not total:
        return ""
    if not best.failed:
        unsure = sum(map(is_unsure, best.deciding))
        some = "" if total == 1 else f"{unsure} of them "
        doubt = f", {some}not for sure" if unsure else ""
        return f"It meets {'the one check' if total == 1 else f'all {total} checks'}{doubt}."
    told = [_tell_miss(check) for check in best.failed]
    return f"It misses {len(best.failed)} of {total} checks: {join_some(told, _NAMED)}."


def _tell_miss(check: Check) -> str:
    if check.level == "required":
        return label_check(check)
    return f"{label_check(check)} {format_check_value(check).split(' [')[0]}"


def _describe_unjudged(verdict: VerdictOverview) -> str:
    if verdict.metric is None:
        return "No main metric has a value."
    if len(verdict.standings) > 1:
        said = _name_leaders(verdict)
        return f"{_make_upper(said) if said.startswith(('none ', 'no ')) else said}."
    measured = verdict.best.get_measured(verdict.metric)
    if measured is None:
        return ""
    shown = _format_measured(verdict.metric, measured)
    whose = f" of {shorten_name(verdict.best.name)}" if verdict.best.by else ""
    return f"{_make_upper(label_metric(verdict.metric))}{whose} is {shown}."


def _name_leaders(verdict: VerdictOverview) -> str:
    """Return which system has the best value, or that it shares the lead."""
    label = label_metric(verdict.metric or "")
    ranked = verdict.ranked
    if ranked is None:
        return _name_highest(verdict, label)
    first, *others = ranked.best
    leader = shorten_name(show_name(first.name))
    if not others:
        return f"{leader} is best by {label}"
    if len(others) + 1 == len(ranked.systems):
        return f"none of them is best for sure; {leader} leads by {label}"
    return f"{leader} leads by {label}, not for sure"


def _name_highest(verdict: VerdictOverview, label: str) -> str:
    """Return which system has the best value, where no test says how sure that is."""
    name = verdict.metric or ""
    known = [each for each in verdict.standings if _get_value(each, name) is not None]
    if not known:
        return "no system has a value to compare"
    word = "lowest" if _is_lower_better(name) else "highest"
    leader = known[0]
    if len(known) > 1 and _is_overlapping(leader, known[1], name):
        return f"{shorten_name(leader.name)} has the {word} {label}, not for sure"
    return f"{shorten_name(leader.name)} has the {word} {label}"


def _is_lower_better(name: str) -> bool:
    return name in catalogue() and metric_named(name).better == "lower"


def _is_overlapping(first: SystemStanding, second: SystemStanding, name: str) -> bool:
    """Say whether the intervals of two systems have a value in common."""
    ends = []
    for each in (first, second):
        found = each.get_measured(name) or each.find_check(name)
        low = None if found is None else found.low
        high = None if found is None else found.high
        ends.append((-inf if low is None else low, inf if high is None else high))
    (low, high), (other_low, other_high) = ends
    return low <= other_high and other_low <= high


def describe_lead(verdict: VerdictOverview) -> str:
    """Return how far the best system is ahead of the next one, and how sure that is."""
    ranked = verdict.ranked
    if ranked is None or verdict.metric is None or len(verdict.standings) < 2:  # noqa: PLR2004
        return ""
    first, second = ranked.systems[:2]
    pair = next((e for e in ranked.pairs if {e.a, e.b} == {first.name, second.name}), None)
    if pair is None or pair.difference is None or first.value is None or second.value is None:
        return ""
    sign = 1 if (pair.a == first.name) else -1
    values, by_task = _choose_values(verdict, (first, second), sign * pair.difference)
    form = choose_metric_form(verdict.metric, [first, second])
    mine, other = (
        format_figure(
            each,
            form=Form(percent=form.percent, thousand=form.thousand, decimals=form.decimals),
        )
        for each in values
    )
    if verdict.metric == _ACCURACY:
        said = f"{shorten_name(show_name(first.name))} is right in {mine} of its answers"
        said += f", {shorten_name(show_name(second.name))} in {other}"
    else:
        label = label_metric(verdict.metric)
        said = f"{_make_upper(label)}: {shorten_name(show_name(first.name))} {mine}"
        said += f", {shorten_name(show_name(second.name))} {other}"
    said += ", every task counting the same" if by_task else ""
    ends = sorted(sign * end for end in (pair.low, pair.high) if end is not None)
    low, high = ends if len(ends) == 2 else (None, None)  # noqa: PLR2004
    size = format_figure(sign * pair.difference, low, high, choose_difference_form(verdict.metric))
    p = format_p(pair.p_adjusted if pair.p_adjusted is not None else pair.p_value)
    p = f"p {p}" if p.startswith("<") else f"p = {p}"
    sure = "That difference is sure" if ranked.is_apart(pair) else "That difference is not sure"
    rest = _describe_rest(ranked)
    return f"{said}. {sure}: {size.removeprefix('+')}, {p}.{rest}"


def _choose_values(
    verdict: VerdictOverview, pair: tuple[RankedSystem, RankedSystem], difference: float
) -> tuple[tuple[float | None, float | None], bool]:
    """Return both values as the rows show them, or by task where these say another order."""
    known = {each.ranked.name: each for each in verdict.standings if each.ranked is not None}
    found = [known[each.name].get_measured(verdict.metric or "") for each in pair]
    first, second = (None if each is None else each.value for each in found)
    if first is None or second is None or (first != second and (first - second) * difference <= 0):
        return (pair[0].value, pair[1].value), True
    return (first, second), False


def _describe_rest(ranked: MetricRanking) -> str:
    others = len(ranked.systems) - len(ranked.best)
    if len(ranked.systems) <= 2 or not others:  # noqa: PLR2004
        return ""
    leaders = len(ranked.best)
    who = "It beats" if leaders == 1 else "Both beat" if leaders == 2 else f"These {leaders} beat"  # noqa: PLR2004
    if leaders > 1 and not _is_group_ahead(ranked):
        return ""
    return f" {who} the other {_WORDS.get(others, f'{others:,}')}."


_WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight"}


def _is_group_ahead(ranked: MetricRanking) -> bool:
    """Say whether each of the leaders is told apart from every other system."""
    leaders = {each.name for each in ranked.best}
    pairs = [pair for pair in ranked.pairs if (pair.a in leaders) != (pair.b in leaders)]
    return all(map(ranked.is_apart, pairs))


def _make_upper(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _format_measured(name: str, measured: Measured, form: Form | None = None) -> str:
    form = choose_metric_form(name, [measured]) if form is None else form
    own = replace(form, brackets=True)
    return format_figure(measured.value, measured.low, measured.high, own)


def tabulate_standings(verdict: VerdictOverview, first: int = 0, most: int = _MOST) -> Table:
    """Return a row per system: rank, checks met, interval and limit, failed calls, cost.

    There are rows for `most` systems, from the place `first` on.
    """
    shown = verdict.standings[first : first + most]
    cells = _SystemCells(verdict)
    columns = cells.list_columns()
    rows = ([getattr(cells, f"make_{column.name}")(each) for column in columns] for each in shown)
    more = len(verdict.standings) > first + most == _MOST
    return Table(
        columns=columns,
        rows=make_rows(rows),
        notes=(f"the first {_MOST} of {len(verdict.standings):,} systems",) if more else (),
    )


class _SystemCells:
    """Makes the cells of the systems' rows; each column `NAME` is made by `make_NAME`."""

    def __init__(self, verdict: VerdictOverview) -> None:
        self._verdict = verdict
        self._name = verdict.metric or ""
        self._scale = _find_scale(verdict)
        found = (each.get_measured(self._name) for each in verdict.standings)
        known = [each for each in found if each is not None]
        self._form = choose_metric_form(self._name, known) if known else Form()

    def list_columns(self) -> tuple[Column, ...]:
        """Return the columns that any system has something for."""
        shown = self._verdict.standings
        checks = [check for each in shown for check in each.checks]
        limits = {str(c.threshold) for e in shown if (c := e.find_check(self._name))}
        limit = f" {limits.pop()}" if len(limits) == 1 else ""
        heading = f"{label_metric(self._name)}{limit}"
        made = {
            "rank": (any(each.ranked for each in shown), "rank", "text"),
            "system": (True, "system", "key"),
            "checks": (any(each.deciding for each in shown), "checks met", "tag"),
            "bar": (bool(self._name), "", "bar"),
            "value": (bool(self._name), heading, "text"),
            "required": (any(c.level == "required" for c in checks), "required tasks", "text"),
            "failed": (any(e.group and e.group.errors for e in shown), "failed calls", "figure"),
            "cost": (any(_get_value(e, _COST) is not None for e in shown), _PER_CALLS, "figure"),
        }
        return tuple(
            Column(name=name, heading=head, kind=cast("Kind", kind), where="people")
            for name, (wanted, head, kind) in made.items()
            if wanted
        )

    @staticmethod
    def make_rank(each: SystemStanding) -> Cell:
        """Return the rank, or the ranks that it may have."""
        ranked = each.ranked
        if ranked is None:
            return Cell(text=NOTHING)
        alone = ranked.rank_low == ranked.rank_high
        return Cell(text=str(ranked.rank) if alone else f"{ranked.rank_low}–{ranked.rank_high}")

    @staticmethod
    def make_system(each: SystemStanding) -> Cell:
        """Return its name."""
        return Cell(value=each.name)

    @staticmethod
    def make_checks(each: SystemStanding) -> Cell:
        """Return how many of its checks are met, and whether one of them is not sure."""
        total = len(each.deciding)
        if not total:
            return Cell(text=NOTHING)
        mark = f" {UNSURE}" if any(map(is_unsure, each.deciding)) else ""
        tone: Tone = "fail" if each.failed else "pass"
        return Cell(text=f"{each.met} of {total}", tone=tone, mark=mark)

    def make_bar(self, each: SystemStanding) -> Cell:
        """Return the interval of its value, drawn against the limit."""
        check, measured = each.find_check(self._name), each.get_measured(self._name)
        found = measured if measured is not None and measured.value is not None else check
        if found is None or found.value is None:
            return Cell(text="")
        at, known = self._place(found.value, 0.0), (found.low, found.high) != (None, None)
        limit = None if check is None or check.threshold is None else check.threshold.value
        span = BarSpan(
            value=at,
            low=self._place(found.low, 0.0) if known else at,
            high=self._place(found.high, 1.0) if known else at,
            limit=None if limit is None else self._place(limit, 0.0),
        )
        shown = f"{label_metric(self._name)} of {each.name}: {self.make_value(each).shown}"
        return Cell(text="", span=span, note=shown)

    def _place(self, number: float | None, beyond: float) -> float:
        low, high = self._scale
        share = beyond if number is None else (number - low) / (high - low)
        return min(1.0, max(0.0, share))

    def make_value(self, each: SystemStanding) -> Cell:
        """Return the value with its interval, and whether it keeps its limit."""
        check, measured = each.find_check(self._name), each.get_measured(self._name)
        if measured is not None and measured.value is not None:
            shown = _format_measured(self._name, measured, self._form)
        elif check is not None:
            shown = format_check_value(check)
        else:
            return Cell(text=NOTHING)
        if check is None:
            return Cell(text=shown)
        sign = "✓" if check.verdict == "pass" else "✕"
        mark = f" {UNSURE}" if is_unsure(check) else ""
        return Cell(text=f"{sign} {shown}{mark}", tone=_TONES.get(check.verdict, ""))

    @staticmethod
    def make_required(each: SystemStanding) -> Cell:
        """Return how many required tasks hold, or the first that do not."""
        checks = [check for check in each.checks if check.level == "required"]
        failed = [check for check in checks if check.blocks]
        if not checks:
            return Cell(text=NOTHING)
        if not failed:
            return Cell(text=f"✓ {'all ' if len(checks) > 1 else ''}{len(checks)}", tone="gain")
        told = [_tell_required(check) for check in failed]
        return Cell(text=f"✕ {join_some(told, 2)}", tone="loss")

    @staticmethod
    def make_failed(each: SystemStanding) -> Cell:
        """Return how many of its calls failed."""
        group = each.group
        if group is None or not group.errors:
            return Cell(text="0")
        share = Form(percent=True, decimals=3)
        shown = format_figure(group.errors / group.records, form=share)
        return Cell(text=f"{group.errors:,} of {group.records:,} ({shown})")

    @staticmethod
    def make_cost(each: SystemStanding) -> Cell:
        """Return what 1,000 of its calls cost."""
        value = _get_value(each, _COST)
        return Cell(text=NOTHING if value is None else format_dollars(1000 * value))


_PER_CALLS = "per 1,000 calls"
_TONES: dict[str, Tone] = {"pass": "gain", "fail": "loss"}  # coloured, without a box


def _find_scale(verdict: VerdictOverview) -> tuple[float, float]:
    """Return the range that the bars of all systems are drawn in."""
    name = verdict.metric
    if name is None or is_rate(name):
        return 0.0, 1.0
    ends = [0.0]
    for each in verdict.standings:
        for found in (each.get_measured(name), each.find_check(name)):
            if found is not None:
                ends += [e for e in (found.value, found.low, found.high) if e is not None]
    known = [end for end in ends if isfinite(end)]
    return min(known), max(known) if max(known) > min(known) else min(known) + 1.0


def _tell_required(check: Check) -> str:
    if check.value is None or check.n <= 1:
        return label_check(check)
    return f"{label_check(check)} {round(check.value * check.n)}/{check.n}"


def list_obstacles(verdict: VerdictOverview) -> Iterator[tuple[Check, str]]:
    """Yield each check that keeps the best system from passing, with what is said of it."""
    for check in verdict.best.failed:
        yield check, _describe_obstacle(check)


def _describe_obstacle(check: Check) -> str:
    """Return how many rows are behind a miss: `5 of 80 (6.2 %), required ≤ 5 %`."""
    from calipers.reports.tables.gate_tables import describe_check  # noqa: PLC0415

    counted = count_share(check)
    said = describe_check(check)
    if counted and ", required" in said:
        said = f"{counted}, required{said.partition(', required')[2]}"
    return said


def count_share(check: Check) -> str:
    """Return `5 of 80 (6.2 %)` of a check whose value is a share of rows; else nothing."""
    if check.value is None or not check.n or check.scale is None or not check.scale.is_ratio:
        return ""
    count = check.value * check.n
    if abs(count - round(count)) > 1e-6:  # noqa: PLR2004
        return ""
    share = format_check_value(check).split(" [")[0]
    return f"{round(count):,} of {check.n:,} ({share})"
