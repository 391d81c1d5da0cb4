"""A ranking as a document: the systems from the best down, then who is told apart from whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from calipers.metrics.cost.tiers import TIER
from calipers.reports.figures import (
    Form,
    choose_form,
    count_decimals,
    count_things,
    format_figure,
    format_p,
    join_some,
    strip_controls,
)
from calipers.reports.ranked_pairs import tabulate_pairs
from calipers.reports.table import (
    Cell,
    Column,
    Document,
    Line,
    Table,
    estimate_cell,
    make_data_columns,
    make_rows,
)

if TYPE_CHECKING:
    from calipers.comparisons.rankings import MetricRanking, RankedSystem, Ranking, TaskPart
    from calipers.scores.results import Group, Score

MAIN = ("accuracy", "pass_rate", "agent_composite", "final_score")
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
    value = format_figure(first.value, first.low, first.high, choose_form(ranked.systems))
    value += f" {ranked.unit}" if ranked.unit else ""
    said = f"{word} {_name_metric(ranked)}: {strip_controls(first.name)}, {value}"
    if rest == 1:
        return f"{said}, {_compare_two(ranked)}"
    if not others:
        return f"{said}, significantly better than each of the other {rest} systems"
    if len(others) == rest:
        return f"{said}, but it cannot be told apart from any of the other {rest} systems"
    named = join_some([strip_controls(each.name) for each in others], _NAMED)
    return f"{said}; it cannot be told apart from {named}"


def _compare_two(ranked: MetricRanking) -> str:
    [pair] = ranked.pairs
    difference = format_figure(pair.difference, pair.low, pair.high, Form(signed=True))
    p = format_p(pair.p_value)
    p = p if p.startswith("<") else f"= {p}"
    by = f"{strip_controls(pair.b)} (difference {difference}, p {p})"
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
    main = next((name for name in MAIN if name in every), None)
    if main is None or not score.groups or list(score.groups[0].by) != ["model"]:
        return score

    def find_value(group: Group) -> float:
        found = group.metrics.get(main)
        return inf if found is None or found.value is None else -found.value

    return replace(score, groups=tuple(sorted(score.groups, key=find_value)))


def _name_metric(ranked: MetricRanking) -> str:
    return "Bradley-Terry strength" if ranked.metric == _BRADLEY_TERRY else ranked.metric


def tabulate_systems(ranked: MetricRanking, by: Sequence[str]) -> Table:
    """Return a row per system, the best first."""
    form = choose_form(ranked.systems)
    further = _make_strength_cells(ranked)
    alone = len(ranked.best) == 1
    head = "strength" if ranked.metric == _BRADLEY_TERRY else ranked.metric
    head += f" ({ranked.unit})" if ranked.unit else ""
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
            *(ranked.metric, *each.by.values(), each.rank, each.name),
            estimate_cell(each, form, note=notes[place], strong=alone and place == 0),
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
        notes=tuple(_list_notes(ranked)),
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
    rate = Form(decimals=3)
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
        f"{len(ranked.systems)} systems, {met} {tasks}; {100 * ranked.confidence:g} % intervals "
        "that hold for all systems at once"
    )


def _list_notes(ranked: MetricRanking) -> Iterator[str]:
    yield "systems that share a letter in group cannot be told apart"
    reasons = {each.reason: None for each in ranked.systems if each.reason}
    for reason in reasons:
        names = [strip_controls(each.name) for each in ranked.systems if each.reason == reason]
        yield f"{join_some(names)}: {reason}"


def tabulate_tasks(ranked: MetricRanking) -> Table:
    """Return a row per system and a column per part of the tasks."""
    parts = dict.fromkeys(name for each in ranked.systems for name in each.tasks)
    counts = {name: ranked.systems[0].tasks[name].n_tasks for name in parts}
    notes = {name: count_things(counts[name], "task") for name in parts}
    columns = [Column(name="system", kind="key", where="people")]
    columns += (Column(name=name, note=note, where="people") for name, note in notes.items())
    every = [part for each in ranked.systems for part in each.tasks.values()]
    form = Form(decimals=_choose_decimals(every))
    rows = []
    for each in ranked.systems:
        cells = (
            Cell(value=part.value, form=form, note=format_figure(part.value, part.low, part.high))
            for part in each.tasks.values()
        )
        rows.append((each.name, *cells))
    sizes = set(counts.values())
    size = f", {count_things(sizes.pop(), 'task')} each" if len(sizes) == 1 else ""
    return Table(
        title=f"{ranked.metric} by {strip_controls(ranked.tasks_by)}",
        lead=f"a column per {strip_controls(ranked.tasks_by)}{size}; JSON has intervals",
        columns=tuple(columns),
        rows=make_rows(rows),
    )


def _choose_decimals(parts: Sequence[TaskPart]) -> int:
    """Return the decimals of values on few tasks, the same in all columns."""
    found = sorted(count_decimals(each.value, each.low, each.high) for each in parts if each.value)
    return min(3, found[len(found) // 2]) if found else 2
