"""The systems to rank: what tells them apart in the data, and which metrics to rank them by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from calipers.engines.codes import group_text
from calipers.engines.plan import FAILED
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import GROUP, TASK
from calipers.records.batch import note_bad_rows
from calipers.records.sources import STDIN, Source, open_sources
from calipers.records.unfinished import explain_unfinished
from calipers.scores.keys import sort_keys
from calipers.scores.options import Options
from calipers.scores.own import refuse_absent
from calipers.scores.score import check_fields
from calipers.scores.tasks import SOURCE, TELL_SYSTEMS_APART, TaskRows, read_tasks, settle_metric
from calipers.support.errors import EmptyError, UsageError, nearest
from calipers.support.quick_dataclasses import dataclass

FILE = "file"  # what tells systems apart where no field does, or where it is asked for
MAIN_METRICS = ("accuracy", "pass_rate", "composite_score", "agent_composite", "final_score")


@dataclass(frozen=True, kw_only=True)
class Systems:
    """Measured rows, each in the group of its system, and the fields of each group."""

    rows: TaskRows
    by: tuple[str, ...]
    keys: Mapping[str, Mapping[str, Any]]  # by the text in `GROUP`
    notices: tuple[str, ...] = ()

    @cached_property
    def names(self) -> dict[str, str]:
        """What people call each system, no two alike."""
        found: dict[str, str] = {}
        for text, key in self.keys.items():
            name = ", ".join(
                "(none)" if value is None else _format_value(value) for value in key.values()
            )
            again, number = name, 1
            while again in found.values():
                number += 1
                again = f"{name} ({number})"
            found[text] = again
        return found


def open_sets(data: Sequence[Any]) -> list[list[Source]]:
    """Return the sources of each data set."""
    if sum(isinstance(each, str) and each == STDIN for each in data) > 1:
        raise UsageError("standard input can be read once", fix="name files for the others")
    return [open_sources(each) for each in data]


def read_systems(
    sets: Sequence[Sequence[Source]],
    options: Options,
    *,
    keep: Sequence[str] = (),
    paired: bool = True,
) -> Systems:
    """Read all records, and tell the systems in them apart.

    By the fields asked for, of which `file` is the data set where records have no such field; else
    by model and tier, whichever has several values; else by data set.

    Raises:
        EmptyError: There is no record.
        UsageError: There are fewer than two systems, or a field is nowhere.
    """
    sources = [source for several in sets for source in several]
    labels = _label_systems(sets)
    whole = read_tasks(
        sources,
        replace(options, by=()),
        keep=tuple(dict.fromkeys((*TELL_SYSTEMS_APART, *options.by, *keep))),
        labels=labels,
        paired=paired,
    )
    if not whole.records:
        raise EmptyError(f"no records in {whole.name}", fix="check the file")
    if FILE not in whole.rows.columns or whole.rows[FILE].is_null().all():
        whole = replace(whole, rows=whole.rows.with_columns(pl.col(SOURCE).alias(FILE)))
    check_fields(whole.present, whole.plan, sources, options.map)
    if options.metrics and whole.records > whole.errors:
        refuse_absent(whole.plan.metrics, whole.present, sources, options.map)
    by = options.by or _find_telling_fields(whole, labels)
    for name in options.by:
        if whole.rows[name].is_null().all():
            columns = {column for source in sources for column in source.columns()}
            raise UsageError(
                f"--by {name}: no record has a value in {name}", fix=nearest(name, columns)
            )
    return _group_systems(whole, by, sources)


def _label_systems(sets: Sequence[Sequence[Source]]) -> list[str]:
    """Return what the systems are called where each data set, or each file of one, is one."""
    one = len(sets) == 1
    named = [
        (source.name if one or len(several) == 1 else _name_folder(several))
        for several in sets
        for source in several
    ]
    numbers = [number for number, several in enumerate(sets) for _ in several]
    if not one and len(set(named)) < len(sets):  # several lists of records, say
        return [f"{name} {number + 1}" for name, number in zip(named, numbers, strict=True)]
    short = {name: Path(name).name for name in named}
    alone = len(set(short.values())) == len(short)
    return [short[name] if alone else name for name in named]


def _name_folder(several: Sequence[Source]) -> str:
    parents = {str(Path(source.name).parent) for source in several}
    return parents.pop() if len(parents) == 1 else several[0].name


def _find_telling_fields(whole: TaskRows, labels: Sequence[str]) -> tuple[str, ...]:
    several = [name for name in TELL_SYSTEMS_APART if whole.rows[name].drop_nulls().n_unique() > 1]
    if several:
        return tuple(several)
    if len(set(labels)) > 1:
        return (FILE,)
    raise UsageError(
        f"one system has nothing to be ranked against: all records of {whole.name} "
        "have the same model and tier",
        fix="name a file per system, or the field that tells them apart: --by FIELD",
    )


def _group_systems(whole: TaskRows, by: tuple[str, ...], sources: Sequence[Source]) -> Systems:
    rows = whole.rows
    known = rows.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in by))
    known = known.with_columns(group_text(by).alias(GROUP)).sort(GROUP, TASK, maintain_order=True)
    keys = sort_keys(known[GROUP].unique(), by)
    if len(keys) <= 1:
        raise UsageError(
            f"one system has nothing to be ranked against: all records have the same "
            f"{' and '.join(by)}",
            fix="name a field that tells the systems apart: --by FIELD",
        )
    found = Systems(rows=replace(whole, rows=known), by=by, keys=keys)
    lost = rows.height - known.height
    return replace(found, notices=tuple(_list_notices(found, lost, sources)))


def _list_notices(found: Systems, lost: int, sources: Sequence[Source]) -> Iterator[str]:
    for name in dict.fromkeys(source.name for source in sources):
        yield from (f"{name}: {lack}" for lack in explain_unfinished(Path(name)))
    whole = found.rows
    if whole.skipped:
        yield note_bad_rows(whole.skipped)
    if whole.numbered and not whole.plan.cluster:
        yield (
            "no record has an id: each counts as a task of its own, which makes intervals too "
            "narrow where tasks were run several times (--map id=NAME, or --cluster NAME)"
        )
    if lost:
        yield f"{lost} records without {' and '.join(found.by)} are left out"
    failed = whole.rows.filter(FAILED).group_by(GROUP).len()
    for text, count in sorted(failed.iter_rows()):
        yield f"{found.names[text]}: {count} failed calls are in no metric"
    others = [name for name in (*TELL_SYSTEMS_APART, FILE) if name not in found.by]
    pooled = whole.rows.group_by(GROUP, TASK).agg(pl.col(others).drop_nulls().n_unique())
    for name in others:
        most = int(pooled[name].max() or 0)  # type: ignore[arg-type]
        if most > 1:
            yield (
                f"up to {most} {name}s of a task count as its runs; "
                f"{' '.join(f'--by {each}' for each in (*found.by, name))} keeps them apart"
            )


def choose_metrics(systems: Systems, options: Options) -> list[Metric]:
    """Return the metrics asked for, or the main one that the records have the fields of.

    Raises:
        UsageError: They have the fields of none.
    """
    whole = systems.rows
    if options.metrics:
        return [settle_metric(metric, [whole]) for metric in whole.plan.metrics]
    measured = {metric.name: metric for metric in whole.plan.metrics if whole.has_fields(metric)}
    main = [measured[name] for name in MAIN_METRICS if name in measured]
    directed = [metric for metric in measured.values() if metric.better is not None]
    means = [metric for metric in directed if metric.averaged is not None]
    if not (chosen := (*main, *means, *directed)):
        raise UsageError(
            "no metric that says what is better has its fields in these records",
            fix="name one of a field of yours: --metric 'mean(FIELD)'; see also: calipers metrics",
        )
    return [settle_metric(chosen[0], [whole])]


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
