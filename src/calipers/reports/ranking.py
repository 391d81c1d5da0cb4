"""A ranking as a document: the systems from the best down, then who is told apart from whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from calipers.reports.figures import (
    NOTHING,
    Form,
    choose_form,
    count_decimals,
    count_things,
    format_figure,
    format_p,
    join_some,
    strip_controls,
)
from calipers.reports.table import EMPTY, Cell, Column, Document, Line, Row, Table, Tone

if TYPE_CHECKING:
    from calipers.comparisons.rankings import (
        MetricRanking,
        RankedPair,
        RankedSystem,
        Ranking,
        TaskPart,
    )

_BRADLEY_TERRY = "bradley_terry"
_LISTED = 4  # systems whose pairs are listed one by one
_FIGURES = 8  # systems whose matrix has room for figures
_MOST = 40  # systems that have a matrix
_NAMED = 5


def make_ranking_document(ranking: Ranking) -> Document:
    """Return for each metric what is best, the systems, their parts, and the pairs."""
    blocks: list[Table | Line] = []
    for ranked in ranking.metrics:
        blocks.append(Line(text=describe_best(ranked)))
        blocks.append(tabulate_systems(ranked, ranking.by))
        if ranked.tasks_by is not None:
            blocks.append(tabulate_tasks(ranked))
        blocks.append(tabulate_pairs(ranked))
    return tuple(blocks)


def describe_best(ranked: MetricRanking) -> str:
    """Return which system is best, and which are not significantly different from it."""
    first, *others = ranked.best
    rest = len(ranked.systems) - 1
    said = f"best {_name(ranked)}: {strip_controls(first.name)}, {_value(first, ranked)}"
    if not others:
        than = "the other system" if rest == 1 else f"each of the other {rest} systems"
        return f"{said}, significantly better than {than}"
    if len(others) == rest:
        these = "the other system" if rest == 1 else f"any of the other {rest} systems"
        return f"{said}, but it cannot be told apart from {these}"
    named = join_some([strip_controls(each.name) for each in others], _NAMED)
    return f"{said}; it cannot be told apart from {named}"


def _name(ranked: MetricRanking) -> str:
    return "Bradley-Terry strength" if ranked.metric == _BRADLEY_TERRY else ranked.metric


def _value(system: RankedSystem, ranked: MetricRanking) -> str:
    unit = f" {ranked.unit}" if ranked.unit else ""
    return f"{format_figure(system.value, system.low, system.high)}{unit}"


def tabulate_systems(
    ranked: MetricRanking,
    by: Sequence[str],
    *,
    link: Callable[[RankedSystem], str] | None = None,
) -> Table:
    """Return a row per system, the best first."""
    form = choose_form(ranked.systems)
    strengths = [each.strength for each in ranked.systems if each.strength is not None]
    strength_form = choose_form(strengths, signed=True)
    has_strengths = bool(strengths) and ranked.metric != _BRADLEY_TERRY
    columns = (
        Column(name="metric", where="data"),
        *(Column(name=f"by_{name}", where="data") for name in by),
        Column(name="rank", heading="#"),
        Column(name="system", kind="key"),
        Column(name="value", heading=_head(ranked), bounds=("low", "high")),
        Column(name="ranks", heading="rank interval", where="people", kind="text"),
        Column(name="rank_low", where="data"),
        Column(name="rank_high", where="data"),
        Column(name="group", kind="text"),
        *(
            (
                Column(name="strength", bounds=("strength_low", "strength_high")),
                Column(name="win_rate", heading="won"),
            )
            if has_strengths
            else (Column(name="win_rate", heading="won"),)
            if strengths
            else ()
        ),
        Column(name="n_tasks", where="data"),
        Column(name="reason", where="data"),
    )
    rows = tuple(
        Row(
            cells=(
                *(ranked.metric, *each.by.values(), each.rank),
                Cell(value=each.name, link="" if link is None else link(each)),
                _estimate(each, form),
                *(Cell(text=_ranks(each)), each.rank_low, each.rank_high, each.group),
                *_strength(each, strength_form, shown=has_strengths),
                *(each.n_tasks, each.reason),
            )
        )
        for each in ranked.systems
    )
    return Table(
        title=f"{_name(ranked)}, {ranked.better} is better",
        lead=_lead(ranked),
        columns=columns,
        rows=rows,
        notes=tuple(_notes(ranked)),
    )


def _head(ranked: MetricRanking) -> str:
    name = "strength" if ranked.metric == _BRADLEY_TERRY else ranked.metric
    return f"{name} ({ranked.unit})" if ranked.unit else name


def _estimate(each: RankedSystem, form: Form) -> Cell:
    note = each.reason or f"n = {count_things(each.n_tasks, 'task')}"
    return Cell(value=each.value, low=each.low, high=each.high, form=form, note=note)


def _ranks(each: RankedSystem) -> str:
    alone = each.rank_low == each.rank_high
    return str(each.rank_low) if alone else f"{each.rank_low}–{each.rank_high}"


def _strength(each: RankedSystem, form: Form, *, shown: bool) -> tuple[Cell, ...]:
    found = each.strength
    if found is None:
        return ()
    won = Cell(value=found.win_rate, form=Form(percent=True, decimals=3))
    cell = Cell(value=found.value, low=found.low, high=found.high, form=form)
    return (cell, won) if shown else (won,)


def _lead(ranked: MetricRanking) -> str:
    tasks = count_things(ranked.n_tasks, "task")
    met = "compared by judges on" if ranked.metric == _BRADLEY_TERRY else "each on the same"
    return (
        f"{len(ranked.systems)} systems, {met} {tasks}; {100 * ranked.confidence:g} % intervals "
        "that hold for all systems at once"
    )


def _notes(ranked: MetricRanking) -> Iterator[str]:
    yield "systems that share a letter in group cannot be told apart"
    reasons = {each.reason: None for each in ranked.systems if each.reason}
    for reason in reasons:
        names = [strip_controls(each.name) for each in ranked.systems if each.reason == reason]
        yield f"{join_some(names)}: {reason}"


def tabulate_tasks(ranked: MetricRanking) -> Table:
    """Return a row per system and a column per part of the tasks."""
    parts = dict.fromkeys(name for each in ranked.systems for name in each.tasks)
    counts = {name: ranked.systems[0].tasks[name].n_tasks for name in parts}
    columns = (
        Column(name="system", kind="key", where="people"),
        *(
            Column(name=name, note=count_things(counts[name], "task"), where="people")
            for name in parts
        ),
    )
    every = [part for each in ranked.systems for part in each.tasks.values()]
    form = Form(decimals=_decimals(every))
    rows = []
    for each in ranked.systems:
        cells = (
            Cell(
                value=part.value,
                form=form,
                note=format_figure(part.value, part.low, part.high),
            )
            for part in each.tasks.values()
        )
        rows.append(Row(cells=(each.name, *cells)))
    sizes = set(counts.values())
    tasks = count_things(sizes.pop(), "task") if len(sizes) == 1 else "tasks"
    return Table(
        title=f"{ranked.metric} by {strip_controls(ranked.tasks_by)}",
        lead=f"a column per {strip_controls(ranked.tasks_by)}, {tasks} each; JSON has intervals",
        columns=columns,
        rows=tuple(rows),
    )


def _decimals(parts: Sequence[TaskPart]) -> int:
    """Return the decimals of values on few tasks, the same in all columns."""
    found = sorted(count_decimals(each.value, each.low, each.high) for each in parts if each.value)
    return min(3, found[len(found) // 2]) if found else 2


def tabulate_pairs(ranked: MetricRanking) -> Table:
    """Return the pairs: listed where they are few, else as a matrix of who beats whom."""
    if len(ranked.systems) <= _LISTED:
        return _list(ranked)
    if len(ranked.systems) <= _MOST:
        return _matrix(ranked)
    text = f"{len(ranked.pairs):,} pairs of systems: see the JSON"
    return Table(title="Pairs", columns=(), rows=(), lead=text)


def _list(ranked: MetricRanking) -> Table:
    columns = (
        Column(name="pair", heading="a − b", kind="key", where="people"),
        Column(name="difference", where="people"),
        Column(name="p", where="people"),
        Column(name="p_adjusted", heading="p adjusted (max-t)", where="people"),
    )
    rows = tuple(
        Row(
            cells=(
                f"{pair.a} − {pair.b}",
                Cell(
                    value=pair.difference,
                    low=pair.low,
                    high=pair.high,
                    form=Form(signed=True),
                    tone=_tone(ranked, pair),
                ),
                Cell(text=format_p(pair.p_value)),
                Cell(text=format_p(pair.p_adjusted)),
            )
        )
        for pair in ranked.pairs
    )
    return Table(title="Pairs", columns=columns, rows=rows, notes=tuple(_tests(ranked)))


def _matrix(ranked: MetricRanking) -> Table:
    names = [each.name for each in ranked.systems]
    pairs = {(pair.a, pair.b): pair for pair in ranked.pairs}
    numbers = [Column(name=str(place), where="people") for place in range(1, len(names) + 1)]
    full = len(names) <= _FIGURES
    rows = tuple(
        Row(
            cells=(
                f"{place} {name}",
                *(_against(ranked, pairs, name, other, full=full) for other in names),
            )
        )
        for place, name in enumerate(names, 1)
    )
    what = (
        "row − column; * where adjusted p is below"
        if full
        else "+ where the row is better than the column, − where it is worse; adjusted p below"
    )
    return Table(
        title="Pairs",
        lead=f"{what} {1 - ranked.confidence:.2g}",
        columns=(Column(name="system", kind="key", where="people"), *numbers),
        rows=rows,
        notes=tuple(_tests(ranked)),
    )


def _against(
    ranked: MetricRanking,
    pairs: Mapping[tuple[str, str], RankedPair],
    name: str,
    other: str,
    *,
    full: bool,
) -> Cell:
    """Return the cell of a system against another: the difference, or only its sign."""
    if name == other:
        return EMPTY
    turned = (name, other) not in pairs
    pair = pairs[(other, name) if turned else (name, other)]
    tone = _tone(ranked, pair)
    if turned and tone:
        tone = "loss" if tone == "gain" else "gain"
    note = f"p adjusted {format_p(pair.p_adjusted)}"
    if not full:
        return Cell(text={"gain": "+", "loss": "−"}.get(tone, "·"), tone=tone, note=note)
    if pair.difference is None:
        return Cell(text=NOTHING, note=pair.reason or "")
    low, high = pair.low, pair.high
    places = count_decimals(pair.difference, low, high)
    value = -pair.difference if turned else pair.difference
    mark = "*" if tone else ""
    return Cell(
        value=value, form=Form(signed=True, decimals=places), mark=mark, tone=tone, note=note
    )


def _tone(ranked: MetricRanking, pair: RankedPair) -> Tone:
    """Return whether the first is better or worse, where the adjusted test says so."""
    if not ranked.is_apart(pair) or pair.difference is None:
        return ""
    return "gain" if (pair.difference > 0) == (ranked.better == "higher") else "loss"


def _tests(ranked: MetricRanking) -> Iterator[str]:
    tests = dict.fromkeys(pair.test for pair in ranked.pairs if pair.p_value is not None)
    named = ", ".join(test for test in tests if test)
    count = len(ranked.pairs)
    if named and count > 1:
        yield f"{named}; p adjusted for all {count:,} pairs (max-t)"
    elif named:
        yield named
    for reason in dict.fromkeys(pair.reason for pair in ranked.pairs if pair.reason):
        pairs = [f"{pair.a} − {pair.b}" for pair in ranked.pairs if pair.reason == reason]
        yield f"{join_some(pairs, 3)}: {reason}"
