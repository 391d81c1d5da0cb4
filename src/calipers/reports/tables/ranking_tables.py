"""A ranking as a document: the systems from the best down, then who is told apart from whom.

Pairs are listed where they are few, and are a matrix of who beats whom otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from calipers.metrics.families.cost import TIER
from calipers.reports.number_format import (
    NOTHING,
    PLAIN,
    Form,
    choose_form,
    count_decimals,
    count_things,
    format_figure,
    format_p,
    join_some,
    show_name,
    strip_controls,
)
from calipers.reports.table import (
    EMPTY,
    Cell,
    Column,
    Document,
    Line,
    Table,
    Tone,
    make_columns,
    make_data_columns,
    make_difference_cell,
    make_estimate_cell,
    make_name_cell,
    make_rows,
)
from calipers.reports.tables.shown_metrics import (
    COMPOSITE,
    MAIN,
    choose_difference_form,
    choose_metric_form,
    get_unit,
    is_composite_shown,
    label_metric,
)

if TYPE_CHECKING:
    from calipers.comparisons.rank_result import MetricRanking, RankedSystem, Ranking, TaskPart
    from calipers.comparisons.ranked_pairs import RankedPair
    from calipers.scores.result import Group, Score

_LISTED = 4  # systems whose pairs are listed one by one
_FIGURES = 8  # systems whose matrix has room for figures
_MOST_IN_MATRIX = 40  # systems that have a matrix


def tabulate_pairs(ranked: MetricRanking) -> Table:
    """Return the pairs: listed where they are few, else as a matrix of who beats whom."""
    if len(ranked.systems) <= _LISTED:
        return list_pairs(ranked)
    if len(ranked.systems) <= _MOST_IN_MATRIX:
        return _tabulate_matrix(ranked)
    text = f"{len(ranked.pairs):,} pairs of systems: see the JSON"
    return Table(title="Pairs", columns=(), rows=(), lead=text)


def list_pairs(ranked: MetricRanking) -> Table:
    """Return a row per pair of systems, the better one first."""
    columns = (
        Column(name="pair", heading="a − b", kind="key", where="people"),
        Column(name="difference", where="people"),
        Column(name="p", where="people"),
        Column(name="p_adjusted", heading="p adjusted (max-t)", where="people"),
    )
    rows = make_rows(
        (
            f"{show_name(pair.a)} − {show_name(pair.b)}",
            make_difference_cell(pair, _choose_tone(ranked, pair), _choose_form(ranked)),
            Cell(value=pair.p_value, text=format_p(pair.p_value)),
            Cell(value=pair.p_adjusted, text=format_p(pair.p_adjusted)),
        )
        for pair in ranked.pairs
    )
    return Table(title="Pairs", columns=columns, rows=rows, notes=tuple(_list_tests(ranked)))


def tabulate_two(several: Sequence[MetricRanking]) -> Table:
    """Return two systems side by side, a row per metric: both values and the paired difference."""
    names = sorted(each.name for each in several[0].systems)
    first, second = names
    rows = []
    for ranked in several:
        values = {each.name: each.value for each in ranked.systems}
        [pair] = ranked.pairs
        sign = 1 if pair.a == second else -1
        known = pair.difference is not None
        ends = sorted(sign * end for end in (pair.low, pair.high) if end is not None)
        low, high = ends if len(ends) == 2 else (None, None)  # noqa: PLR2004
        form = _choose_value_form(ranked)
        decimals = count_decimals(pair.difference or 0.0, pair.low, pair.high)
        form = replace(form, decimals=decimals)
        tone = _choose_tone(ranked, pair)
        if tone and pair.a != second:
            tone = "loss" if tone == "gain" else "gain"
        difference = Cell(
            value=sign * (pair.difference or 0.0) if known else None,
            low=low,
            high=high,
            form=_choose_form(ranked),
            tone=tone,
        )
        unit = _get_unit(ranked)
        head = f"{_name_metric(ranked)} ({unit})" if unit else _name_metric(ranked)
        sides = (Cell(value=values.get(name), form=form) for name in names)
        rows.append((head, *sides, difference, Cell(text=format_p(pair.p_value))))
    columns = (
        Column(name="metric", kind="key", where="people"),
        Column(name="first", heading=show_name(first), where="people"),
        Column(name="second", heading=show_name(second), where="people"),
        Column(name="difference", heading=f"{second} − {first}", where="people"),
        Column(name="p", where="people"),
    )
    lead = f"task by task, over {count_things(several[0].n_tasks, 'task')}"
    return Table(
        title=f"{first} against {second}", lead=lead, columns=columns, rows=make_rows(rows)
    )


def _tabulate_matrix(ranked: MetricRanking) -> Table:
    names = [each.name for each in ranked.systems]
    pairs = {(pair.a, pair.b): pair for pair in ranked.pairs}
    full = len(names) <= _FIGURES
    form = replace(_choose_form(ranked), decimals=_choose_pair_decimals(ranked.pairs))
    rows = make_rows(
        (
            f"{place} {name}",
            *(
                _make_pair_cell(ranked, pairs, (name, other), form if full else None)
                for other in names
            ),
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
        columns=make_columns("system", *(str(place) for place in range(1, len(names) + 1))),
        rows=rows,
        notes=tuple(_list_tests(ranked)),
    )


def _choose_pair_decimals(pairs: Sequence[RankedPair]) -> int:
    known = (pair for pair in pairs if pair.difference is not None)
    found = sorted(count_decimals(pair.difference or 0.0, pair.low, pair.high) for pair in known)
    return found[len(found) // 2] if found else 2


def _make_pair_cell(
    ranked: MetricRanking,
    pairs: Mapping[tuple[str, str], RankedPair],
    key: tuple[str, str],
    form: Form | None,
) -> Cell:
    """Return the cell of a system against another: the difference, or without a form its sign."""
    if key[0] == key[1]:
        return EMPTY
    turned = key not in pairs
    pair = pairs[key[::-1] if turned else key]
    tone = _choose_tone(ranked, pair)
    if turned and tone:
        tone = "loss" if tone == "gain" else "gain"
    note = pair.reason or f"p adjusted {format_p(pair.p_adjusted)}"
    if form is None:
        return Cell(text={"gain": "+", "loss": "−"}.get(tone, "·"), tone=tone, note=note)
    if pair.difference is None:
        return Cell(text=NOTHING, note=note)
    value = -pair.difference if turned else pair.difference
    return Cell(value=value, form=form, mark="*" if tone else "", tone=tone, note=note)


def _choose_tone(ranked: MetricRanking, pair: RankedPair) -> Tone:
    """Return whether the first is better or worse, where the adjusted test says so."""
    if not ranked.is_apart(pair) or pair.difference is None:
        return ""
    return "gain" if (pair.difference > 0) == (ranked.better == "higher") else "loss"


def _list_tests(ranked: MetricRanking) -> Iterator[str]:
    tests = dict.fromkeys(pair.test for pair in ranked.pairs if pair.p_value is not None)
    named = "; ".join(test for test in tests if test)
    count = len(ranked.pairs)
    if named and count > 1:
        yield f"{named}; p adjusted for all {count:,} pairs (max-t)"
    elif named:
        yield named
    for reason in dict.fromkeys(pair.reason for pair in ranked.pairs if pair.reason):
        pairs = [f"{pair.a} − {pair.b}" for pair in ranked.pairs if pair.reason == reason]
        yield f"{join_some(pairs, 3)}: {reason}"


_BRADLEY_TERRY = "bradley_terry"
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
    end = "highest" if ranked.better == "higher" else "lowest"
    word = end if others else "best"
    # Without its interval, which holds for all systems at once: another than that of the score.
    decimals = choose_form(ranked.systems).decimals
    value = format_figure(first.value, form=replace(_choose_value_form(ranked), decimals=decimals))
    value += f" {_get_unit(ranked)}" if _get_unit(ranked) else ""
    said = f"{word} {_name_metric(ranked)}: {show_name(first.name)}, {value}"
    if rest == 1:
        return f"{said}, {_compare_two(ranked)}"
    if not others:
        return f"{said}, significantly better than each of the other {rest} systems"
    if len(others) == rest:
        return f"{said}, but it cannot be told apart from any of the other {rest} systems"
    named = join_some([show_name(each.name) for each in others], _NAMED)
    return f"{said}; it cannot be told apart from {named}"


def _compare_two(ranked: MetricRanking) -> str:
    [pair] = ranked.pairs
    difference = format_figure(pair.difference, pair.low, pair.high, _choose_form(ranked))
    p = format_p(pair.p_value)
    p = p if p.startswith("<") else f"= {p}"
    by = f"{show_name(pair.b)} (difference {difference}, p {p})"
    if ranked.is_apart(pair):
        return f"significantly better than {by}"
    return f"but it cannot be told apart from {by}"


def make_sentence(text: str) -> str:
    """Return a text as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:]}."


def order_groups(score: Score, ranking: Ranking | None) -> Score:
    """Return a score with its groups from the best down; tiers stay in their own order.

    The groups may be parts of systems, as those of a breakdown are.
    """
    if TIER in (score.groups[0].by if score.groups else ()):
        return score
    if ranking is None:
        return _order_by_value(score)
    place = {tuple(each.by.values()): number for number, each in enumerate(ranking.systems)}
    last = len(place)

    def find_place(group: Group) -> int:
        return place.get(tuple(group.by.get(name) for name in ranking.by), last)

    return replace(score, groups=tuple(sorted(score.groups, key=find_place)))


def _order_by_value(score: Score) -> Score:
    """Return a score with its models by the main metric, where they could not be ranked."""
    every = {name for group in score.groups for name in group.metrics}
    main = next((name for name in list_main(score) if name in every), None)
    if main is None or not score.groups or list(score.groups[0].by) != ["model"]:
        return score

    def find_value(group: Group) -> float:
        found = group.metrics.get(main)
        return inf if found is None or found.value is None else -found.value

    return replace(score, groups=tuple(sorted(score.groups, key=find_value)))


def list_main(score: Score) -> tuple[str, ...]:
    """Return the metrics by which systems are put in order, the first of which counts."""
    return tuple(name for name in MAIN if name != COMPOSITE or is_composite_shown(score))


def _choose_value_form(ranked: MetricRanking) -> Form:
    """Return how values of the metric are written; strengths are plain numbers."""
    if ranked.metric == _BRADLEY_TERRY:
        return PLAIN
    return choose_metric_form(ranked.metric, ())


def _choose_form(ranked: MetricRanking) -> Form:
    """Return how differences of the metric are written."""
    if ranked.metric == _BRADLEY_TERRY:
        return Form(signed=True)
    return choose_difference_form(ranked.metric)


def _get_unit(ranked: MetricRanking) -> str | None:
    return ranked.unit if ranked.metric == _BRADLEY_TERRY else get_unit(ranked.metric)


def _name_metric(ranked: MetricRanking) -> str:
    return (
        "Bradley-Terry strength" if ranked.metric == _BRADLEY_TERRY else label_metric(ranked.metric)
    )


def tabulate_systems(ranked: MetricRanking, by: Sequence[str]) -> Table:
    """Return a row per system, the best first."""
    form = choose_form(ranked.systems, _choose_value_form(ranked))
    further = _make_strength_cells(ranked)
    alone = len(ranked.best) == 1
    head = "strength" if ranked.metric == _BRADLEY_TERRY else ranked.metric
    head = label_metric(head)
    unit = _get_unit(ranked)
    head += ", simultaneous interval" + (f" ({unit})" if unit else "")
    columns = (
        *make_data_columns("metric", *(f"by_{name}" for name in by)),
        Column(name="rank", heading="#"),
        Column(name="system", kind="key"),
        Column(name="value", heading=head, bounds=("low", "high")),
        Column(name="ranks", heading="rank interval", where="people", kind="text"),
        *make_data_columns("rank_low", "rank_high"),
        Column(name="group", kind="text"),
        *further,
        *make_data_columns("n_tasks", "reason"),
    )
    notes = [each.reason or f"n = {count_things(each.n_tasks, 'task')}" for each in ranked.systems]
    rows = make_rows(
        (
            *(ranked.metric, *each.by.values(), each.rank, make_name_cell(each.name)),
            make_estimate_cell(each, form, note=notes[place], strong=alone and place == 0),
            *(Cell(text=_format_ranks(each)), each.rank_low, each.rank_high, each.group),
            *(cells[place] for cells in further.values()),
            *(each.n_tasks, each.reason),
        )
        for place, each in enumerate(ranked.systems)
    )
    return Table(
        title=f"{_name_metric(ranked)}, {ranked.better} is better",
        lead=_describe_tasks(ranked),
        columns=columns,
        rows=rows,
        notes=tuple(_list_system_notes(ranked)),
    )


def _format_ranks(each: RankedSystem) -> str:
    alone = each.rank_low == each.rank_high
    return str(each.rank_low) if alone else f"{each.rank_low}–{each.rank_high}"


def _make_strength_cells(ranked: MetricRanking) -> dict[Column, list[Cell]]:
    """Return the columns of strengths and wins, where there are any, with a cell per system."""
    strengths = [each.strength for each in ranked.systems if each.strength is not None]
    if not strengths:
        return {}
    form = choose_form(strengths, signed=True)
    rate = Form(decimals=3, percent=True)
    won = [Cell(value=each.win_rate, form=rate) for each in strengths]
    found = {Column(name="win_rate", heading="won"): won}
    if ranked.metric == _BRADLEY_TERRY:
        return found
    strength = Column(name="strength", bounds=("strength_low", "strength_high"))
    cells = [Cell(value=each.value, low=each.low, high=each.high, form=form) for each in strengths]
    return {strength: cells, **found}


def _describe_tasks(ranked: MetricRanking) -> str:
    tasks = count_things(ranked.n_tasks, "task")
    if not ranked.paired:
        own = sorted(each.n_tasks for each in ranked.systems)
        fewest = "" if own[0] == own[-1] else f"{own[0]:,} to "
        met, tasks = "as independent samples of", f"{fewest}{count_things(own[-1], 'task')} each"
    elif ranked.metric == _BRADLEY_TERRY:
        met = "compared by judges on"
    else:
        met = "each on the same"
    return (
        f"{len(ranked.systems)} systems, {met} {tasks}; simultaneous {100 * ranked.confidence:g} % "
        "intervals: they hold for all systems at once, and are wider than those of a score"
    )


def _list_system_notes(ranked: MetricRanking) -> Iterator[str]:
    yield ranked.group_reason or "systems that share a letter in group cannot be told apart"
    reasons = {each.reason: None for each in ranked.systems if each.reason}
    for reason in reasons:
        names = [show_name(each.name) for each in ranked.systems if each.reason == reason]
        yield f"{join_some(names)}: {reason}"


def tabulate_tasks(ranked: MetricRanking) -> Table:
    """Return a row per system and a column per part of the tasks."""
    parts = dict.fromkeys(name for each in ranked.systems for name in each.tasks)
    counts = {name: ranked.systems[0].tasks[name].n_tasks for name in parts}
    notes = {name: count_things(counts[name], "task") for name in parts}
    columns = [Column(name="system", kind="key", where="people")]
    columns += (Column(name=name, note=note, where="people") for name, note in notes.items())
    every = [part for each in ranked.systems for part in each.tasks.values()]
    form = replace(_choose_value_form(ranked), decimals=_choose_part_decimals(every))
    rows = []
    for each in ranked.systems:
        cells = (
            Cell(value=part.value, form=form, note=format_figure(part.value, part.low, part.high))
            for part in each.tasks.values()
        )
        rows.append((make_name_cell(each.name), *cells))
    sizes = set(counts.values())
    size = f", {count_things(sizes.pop(), 'task')} each" if len(sizes) == 1 else ""
    return Table(
        title=f"{label_metric(ranked.metric)} by {strip_controls(ranked.tasks_by)}",
        lead=f"a column per {strip_controls(ranked.tasks_by)}{size}; JSON has intervals",
        columns=tuple(columns),
        rows=make_rows(rows),
    )


def _choose_part_decimals(parts: Sequence[TaskPart]) -> int:
    """Return the decimals of values on few tasks, the same in all columns."""
    found = sorted(count_decimals(each.value, each.low, each.high) for each in parts if each.value)
    return min(3, found[len(found) // 2]) if found else 2
