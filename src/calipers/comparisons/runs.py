"""Read the runs, choose what to compare, and put the comparisons of all pairs together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from calipers.comparisons.attributing import attribute_changes, read_twice
from calipers.comparisons.flips import find_flips, write_flips
from calipers.comparisons.independent import compare_across, compare_independent
from calipers.comparisons.options.compare import CompareOptions
from calipers.comparisons.paired import compare_pairs
from calipers.comparisons.results import Compared, Margin, Pair
from calipers.metrics import Metric, metric_named
from calipers.metrics.declare.declaration import GROUP, TASK
from calipers.metrics.scenarios.pass_at_k import succeeded
from calipers.metrics.thresholds import parse_margin, read_scale
from calipers.records.batch import note_bad_rows
from calipers.records.sources import STDIN, open_sources
from calipers.records.unfinished import explain_unfinished
from calipers.scores.keys import sort_keys
from calipers.scores.options import Options
from calipers.scores.own import refuse_absent
from calipers.scores.score import check_fields
from calipers.scores.tasks import (
    TELL_SYSTEMS_APART,
    TaskRows,
    note_pooled,
    read_tasks,
    settle_metric,
    split_rows,
)
from calipers.statistics.paired import holm
from calipers.support.errors import EmptyError, UsageError, nearest

_TWO = 2


def compare_data(data: Sequence[Any], options: Options, asked: CompareOptions) -> Compared:
    """Compare all pairs of the data sets, or of the parts of one; or each with the first."""
    data = [list(each) if isinstance(each, Iterator) else each for each in data]
    _refuse(data, asked)
    read = _read(data, options, asked)
    sides = read if asked.between is None else _split_sides(read[0], data[0], asked.between)
    two = len(sides) == _TWO
    if asked.flips is not None and not two:
        raise UsageError("--flips compares two runs", fix="name two files")
    metrics = _choose_metrics(sides, named=bool(options.metrics))
    margins = _read_margins(asked.margin, metrics)
    paired = partial(compare_pairs, flip_signs=asked.flip_signs)
    of_two = compare_independent if asked.unpaired else paired
    chosen = [pair for pair in combinations(sides, 2) if not asked.to_first or pair[0] is sides[0]]
    if not asked.unpaired:
        _check_common_tasks(chosen)
    pairs = [
        _compare_groups(base, candidate, metrics, options, of_two) for base, candidate in chosen
    ]
    if asked.attribute:
        twice = read_twice(data[0], data[1], options, base_normalize=asked.base_normalize)
        pairs = [attribute_changes(pair, twice, metrics) for pair in pairs]
    return Compared(
        pairs=tuple(_apply_margins(pair, margins) for pair in _adjust_p_values(pairs, metrics)),
        paired=not asked.unpaired,
        confidence=options.confidence,
        seed=options.seed,
        across=dict(compare_across(sides, metrics)) if asked.unpaired and not two else {},
        named=tuple(options.metrics),
        flips=_count_flips(sides[0], sides[1], asked) if two and not asked.unpaired else {},
        notices=tuple(_list_notices(data, read, sides, asked.between)),
    )


def _count_flips(base: TaskRows, candidate: TaskRows, asked: CompareOptions) -> Mapping[str, int]:
    """Return how many rows were lost and won, and hand them to whoever asked for them.

    Without a metric of right or wrong there are none.
    """
    found = find_flips(base, candidate)
    if asked.flips is not None:
        write_flips(found, asked.flips)
    if found is None:
        return {}
    if asked.take_flips is not None:
        asked.take_flips(found)
    lost = int(found["lost"].sum())
    return {"lost": lost, "won": found.height - lost}


def _refuse(data: Sequence[Any], asked: CompareOptions) -> None:
    """Raise UsageError for contradictory options, before anything is read."""
    piped = sum(isinstance(each, str) and each == STDIN for each in data)
    wanted = {"--flips": asked.flips is not None, "--attribute": asked.attribute}
    for option in (option for option, is_wanted in wanted.items() if is_wanted and asked.unpaired):
        raise UsageError(
            f"--unpaired pairs no tasks, which {option} needs", fix="leave one of the two out"
        )
    if asked.base_normalize is not None and not asked.attribute:
        raise UsageError("--base-normalize needs --attribute", fix="add --attribute")
    if asked.attribute and len(data) != _TWO:
        raise UsageError("--attribute compares two runs", fix="name two files")
    if piped > 1:
        raise UsageError("standard input can be read once", fix="name a file for one of the two")
    if piped and asked.attribute:
        raise UsageError(
            "standard input can be read once", fix="--attribute reads each run again: name files"
        )
    if asked.between is not None and len(data) != 1:
        raise UsageError("--between splits one data set", fix="name one file")
    if asked.between is None and len(data) < _TWO:
        raise UsageError(
            "comparing needs two data sets",
            fix="name a second file, or split this one: --between model",
        )


def _read(data: Sequence[Any], options: Options, asked: CompareOptions) -> list[TaskRows]:
    """Return each data set, measured; raise if one is empty or none has a field asked for."""
    between = () if asked.between is None else (asked.between,)
    kept = ("answer", "target", "run", *TELL_SYSTEMS_APART, *between)
    read = [read_tasks(each, options, keep=kept, paired=not asked.unpaired) for each in data]
    for side in read:
        if not side.records:
            raise EmptyError(f"no records in {side.name}", fix="check the file")
    sources = [source for each in data for source in open_sources(each)]
    present = frozenset[str]().union(*(side.present for side in read))
    check_fields(present, read[0].plan, sources, options.map)
    if options.metrics and any(side.records > side.errors for side in read):
        refuse_absent(read[0].plan.metrics, present, sources, options.map)
    return read


def _split_sides(whole: TaskRows, data: Any, field: str) -> list[TaskRows]:
    found = split_rows(whole, field)
    if not found:
        columns = {column for source in open_sources(data) for column in source.columns()}
        raise UsageError(
            f"--between {field}: no record has a value in {field}", fix=nearest(field, columns)
        )
    if len(found) < _TWO:
        raise UsageError(
            f"--between {field}: all records have the same value",
            fix="name a field that distinguishes the runs",
        )
    return found


def _choose_metrics(sides: Sequence[TaskRows], *, named: bool) -> list[Metric]:
    """Return the metrics whose fields all sides have; those asked for by name in any case.

    Pass@k and pass^k only by name: of the same verdicts, they would be further tests of one thing.
    """
    planned = sides[0].plan.metrics
    common = (each for each in planned if all(each in side.plan.metrics for side in sides))
    every = [settle_metric(metric, sides) for metric in common]
    measured = [metric for metric in every if all(side.has_fields(metric) for side in sides)]
    if not measured:
        raise UsageError(
            "no metric has its fields on every side", fix="see: calipers metrics, --map, --metric"
        )
    if named:
        return every
    return [metric for metric in measured if succeeded not in metric.features] or measured


def _read_margins(written: float | str | None, metrics: Sequence[Metric]) -> dict[str, float]:
    """Return the margin of each metric in its own unit; none if none was asked for."""
    if written is None:
        return {}
    try:
        margins = {metric.name: parse_margin(written, read_scale(metric)) for metric in metrics}
    except UsageError as error:
        raise UsageError(
            f"--margin {written}: not a margin for every metric compared ({error.message})",
            fix="a number in the metric's unit, for example --metric accuracy --margin 0.02",
        ) from error
    if min(margins.values()) < 0:
        raise UsageError(
            f"--margin {written}: below 0", fix="how much worse is still acceptable: 0.02, say"
        )
    return margins


def _apply_margins(pair: Pair, margins: Mapping[str, float]) -> Pair:
    if not margins:
        return pair
    metrics = {
        name: replace(
            each, against=Margin.of(margins[name], each.low, each.high, metric_named(name).better)
        )
        for name, each in pair.metrics.items()
    }
    groups = tuple(_apply_margins(group, margins) for group in pair.groups)
    return replace(pair, metrics=metrics, groups=groups)


def _check_common_tasks(pairs: Sequence[tuple[TaskRows, TaskRows]]) -> None:
    for base, candidate in pairs:
        if not base.rows[TASK].is_in(candidate.rows[TASK].implode()).any():
            raise UsageError(
                f"{base.name} and {candidate.name} have no task in common",
                fix="tasks are paired by id: name the field with --map id=NAME, group alike, "
                "or compare them as independent samples with --unpaired",
            )


def _list_notices(
    data: Sequence[Any], read: Sequence[TaskRows], sides: Sequence[TaskRows], between: str | None
) -> Iterator[str]:
    for name in dict.fromkeys(source.name for each in data for source in open_sources(each)):
        yield from (f"{name}: {lack}" for lack in explain_unfinished(Path(name)))
    for side in read:
        if side.skipped:
            yield f"{side.name}: {note_bad_rows(side.skipped)}"
    if between is not None and (lost := read[0].rows[between].null_count()):
        yield f"{lost} records without {between} are left out"
    for side in sides:
        if side.errors:
            yield f"{side.name}: {side.errors} failed calls are in no metric"
        yield from note_pooled(side)


def _compare_groups(
    base: TaskRows,
    candidate: TaskRows,
    metrics: Sequence[Metric],
    options: Options,
    of_two: Callable[[TaskRows, TaskRows, Sequence[Metric], Options], Pair],
) -> Pair:
    """Return the comparison of all tasks and, if asked for, that of each group on both sides."""
    whole = of_two(base, candidate, metrics, options)
    if not options.by:
        return whole
    texts = set(base.rows[GROUP].unique()) & set(candidate.rows[GROUP].unique())
    groups = []
    for text, key in sort_keys(texts, options.by).items():
        own = pl.col(GROUP) == text
        ours, theirs = (replace(side, rows=side.rows.filter(own)) for side in (base, candidate))
        groups.append(replace(of_two(ours, theirs, metrics, options), by=key))
    return replace(whole, groups=tuple(groups))


def _adjust_p_values(pairs: Sequence[Pair], metrics: Sequence[Metric]) -> list[Pair]:
    """Return the pairs with p adjusted over all pairs and metrics (Holm), complements once."""
    family = {metric.name: metric.averaged or metric.name for metric in metrics}
    tests: dict[tuple[int, Any], float | None] = {
        (number, family[name]): each.p_value
        for number, pair in enumerate(pairs)
        for name, each in pair.metrics.items()
    }
    adjusted = dict(zip(tests, holm(list(tests.values())), strict=True))
    return [
        replace(
            pair,
            metrics={
                name: replace(each, p_holm=adjusted[number, family[name]])
                for name, each in pair.metrics.items()
            },
            groups=tuple(_adjust_p_values(pair.groups, metrics)) if pair.groups else (),
        )
        for number, pair in enumerate(pairs)
    ]
