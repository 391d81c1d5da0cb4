"""The systems to rank: what tells them apart, their metrics, and their values on common tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from calipers.comparisons.compare_result import list_clusters
from calipers.engines.group_codes import group_text
from calipers.engines.plan import FAILED
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import GROUP, RUNS, TASK
from calipers.records.batch import Source, format_bad_rows, format_nulled
from calipers.records.completeness import explain_missing
from calipers.records.sources import STDIN, open_sources
from calipers.scores.groups import sort_keys
from calipers.scores.options import Options
from calipers.scores.score import check_fields
from calipers.scores.score_plan import refuse_absent
from calipers.scores.task_values import (
    SOURCE,
    SQUARES,
    TELL_SYSTEMS_APART,
    VALUE,
    TaskRows,
    measure_tasks,
    name_kept_field,
    read_task_rows,
    settle_metric,
)
from calipers.statistics.all_pairs import TaskMatrix
from calipers.statistics.clusters import Floats
from calipers.support.errors import EmptyError, UsageError, nearest, quote_name

FILE = "file"  # what tells systems apart where no field does, or where it is asked for
_FILE = name_kept_field(FILE)
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
    by model, tier and variant, whichever have several values; else by data set.

    Raises:
        EmptyError: There is no record.
        UsageError: There are fewer than two systems, or a field is nowhere.
    """
    sources = [source for several in sets for source in several]
    labels = _label_systems(sets)
    whole = read_task_rows(
        sources,
        replace(options, by=()),
        keep=tuple(dict.fromkeys((*TELL_SYSTEMS_APART, *options.by, *keep))),
        labels=labels,
        paired=paired,
    )
    if not whole.records:
        raise EmptyError(f"no records in {whole.name}", fix="check the file")
    if _FILE not in whole.rows.columns or whole.rows[_FILE].is_null().all():
        whole = replace(whole, rows=whole.rows.with_columns(pl.col(SOURCE).alias(_FILE)))
    check_fields(whole.present, whole.plan, sources, options.map)
    if options.metrics and whole.records > whole.errors:
        refuse_absent(whole.plan.metrics, whole.present, sources, options.map)
    by = options.by or _find_telling_fields(whole, labels)
    for name in options.by:
        if whole.rows[name_kept_field(name)].is_null().all():
            columns = {column for source in sources for column in source.columns()}
            raise UsageError(
                f"--by {quote_name(name)}: no record has a value in {quote_name(name)}",
                fix=nearest(name, columns),
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
    columns = [name_kept_field(name) for name in by]
    known = rows.filter(pl.any_horizontal(pl.col(column).is_not_null() for column in columns))
    groups = known.select(pl.col(columns)).rename(dict(zip(columns, by, strict=True)))
    known = known.with_columns(groups.select(group_text(by).alias(GROUP)).to_series())
    known = known.sort(GROUP, TASK, maintain_order=True)
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
        yield from (f"{name}: {lack}" for lack in explain_missing(Path(name)))
    whole = found.rows
    if whole.skipped:
        yield format_bad_rows(whole.skipped)
    if whole.nulled:
        yield format_nulled(whole.nulled)
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
    others = {name: name_kept_field(name) for name in (*TELL_SYSTEMS_APART, FILE)}
    others = {name: column for name, column in others.items() if name not in found.by}
    counted = pl.col(list(others.values())).drop_nulls().n_unique()
    pooled = whole.rows.group_by(GROUP, TASK).agg(counted)
    for name, column in others.items():
        most = int(pooled[column].max() or 0)  # type: ignore[arg-type]
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


_NAMED = 6  # systems in a notice


@dataclass(frozen=True, kw_only=True)
class CommonTasks:
    """The systems that have a metric, and the tasks that all of these have."""

    systems: tuple[str, ...]  # their texts in `GROUP`
    tasks: pl.DataFrame  # the column `TASK`, sorted
    notices: tuple[str, ...]


def find_common(systems: Systems, metric: Metric, known: pl.DataFrame) -> CommonTasks:
    """Return the tasks that every system with the metric has; `known` names each pair once.

    Raises:
        UsageError: Fewer than two systems have the metric, or no task is common to all.
    """
    of_systems = {
        text: rows[TASK]
        for (text,), rows in known.select(GROUP, TASK).partition_by(GROUP, as_dict=True).items()
    }
    texts = [text for text in systems.keys if text in of_systems]
    names = systems.names
    without = [names[text] for text in systems.keys if text not in of_systems]
    if len(texts) <= 1:
        having = f"only {names[texts[0]]} has a value" if texts else "no system has a value"
        raise UsageError(
            f"{metric.name}: {having}, so there is nothing to rank ({metric.empty})",
            fix="rank by another metric: --metric NAME; calipers score shows which have values",
        )
    tasks, every = _share_tasks([of_systems[text] for text in texts])
    lacking = {names[text]: every - len(of_systems[text]) for text in texts}
    lacking = {name: count for name, count in lacking.items() if count}
    if not tasks.height:
        raise UsageError(
            f"{metric.name}: no task is common to all systems; of {every:,} tasks, "
            f"{_describe_lacking(lacking)}",
            fix="tasks are paired by id: name the field with --map id=NAME, "
            "or rank the systems as independent samples with --unpaired",
        )
    notices = []
    if without:
        notices.append(f"{metric.name}: not ranked for want of a value: {_shorten_list(without)}")
    if tasks.height < every:
        common = "the only task" if tasks.height == 1 else f"the {tasks.height:,} tasks"
        notices.append(
            f"{metric.name}: ranked on {common} that all systems have; "
            f"{every - tasks.height:,} of {every:,} are left out ({_describe_lacking(lacking)})"
        )
    return CommonTasks(systems=tuple(texts), tasks=tasks, notices=tuple(notices))


def _share_tasks(of_systems: Sequence[pl.Series]) -> tuple[pl.DataFrame, int]:
    """Return the tasks that all systems have, sorted, and how many tasks any of them has."""
    first = of_systems[0]
    if all(each.equals(first) for each in of_systems):
        return first.sort().to_frame(), len(first)
    shared = pl.concat(of_systems).to_frame().group_by(TASK).len()
    common = shared.filter(pl.col("len") == len(of_systems)).select(TASK).sort(TASK)
    return common, shared.height


def _describe_lacking(lacking: Mapping[str, int]) -> str:
    """Say which systems lack how many tasks, those that lack most first."""
    order = sorted(lacking.items(), key=lambda item: -item[1])
    return _shorten_list([f"{name} lacks {count:,}" for name, count in order])


def _shorten_list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def make_matrix(
    systems: Systems, metric: Metric, options: Options
) -> tuple[TaskMatrix, CommonTasks] | None:
    """Return the values of all systems on their common tasks; None if no task has a value."""
    table = measure_tasks(systems.rows, metric)
    if table is None:
        return None
    common = find_common(systems, metric, table)
    shape = len(common.systems), common.tasks.height
    if table.height > shape[0] * shape[1]:
        table = table.join(common.tasks, on=TASK, how="semi", maintain_order="left")
    in_order = table[GROUP][:: shape[1]].to_list()  # by system and task
    order = [in_order.index(text) for text in common.systems]

    def dense(name: str) -> Floats:
        matrix = table[name].cast(pl.Float64).to_numpy().reshape(shape)
        return matrix if order == sorted(order) else matrix[order]

    matrix = TaskMatrix(
        values=dense(VALUE),
        runs=dense(RUNS),
        squares=dense(SQUARES) if SQUARES in table.columns else None,
        clusters=list_clusters(common.tasks, systems.rows) if options.cluster else None,
    )
    return matrix, common


def note_runs(matrix: TaskMatrix, metric: Metric) -> Iterator[str]:
    """Say that `score` has other values, where tasks have different numbers of runs."""
    if matrix.runs.min() == matrix.runs.max():
        return
    by_row = np.average(matrix.values, axis=1, weights=matrix.runs)
    if not np.allclose(by_row, matrix.values.mean(axis=1), rtol=1e-9, atol=1e-9):
        yield (
            f"{metric.name}: tasks have different numbers of runs; every task counts the same "
            "here, every row in calipers score (--weight task)"
        )
