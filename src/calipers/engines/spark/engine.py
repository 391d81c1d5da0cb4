"""Measure every source in the workers and add up in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import narwhals as nw
import polars as pl
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everyone writes it)

from calipers.engines.batches import numbered
from calipers.engines.outcome import ROWS, TEXT, Outcome, Sinks, TextTally
from calipers.engines.per_task import (
    attempts,
    flakiest,
    flaky_counts,
    run_columns,
    sorted_runs,
    task_totals,
    with_answers,
)
from calipers.engines.plan import Plan, has
from calipers.engines.spark.resampling import resampled_groups
from calipers.engines.spark.rows import BAD, measured_rows, readings
from calipers.engines.spark.session import (
    collected,
    last_line,
    part_by_part,
    send_loaded_files,
    start_session,
)
from calipers.engines.spark.totals import group_totals
from calipers.engines.totals import RECORDS, add_totals
from calipers.metrics.declare.declaration import GROUP, Feature
from calipers.records.sources import Source, Wanted
from calipers.support.errors import DataError

_TEXTS = 100_000  # different ones that reach the driver


def run(sources: Sequence[Source], wanted: Wanted, plan: Plan, sinks: Sinks) -> Outcome:
    """Measure every source in the workers and add up in the cluster."""
    spark = start_session()
    send_loaded_files()
    plan = replace(plan, sort_keys=True)
    kept = plan.sample_columns if sinks.wants_samples else {}
    types = {name: _type_of(name, plan) for name in kept.values()}
    types |= {feature.name: feature.dtype for feature in plan.tallied}
    schema = {**plan.schema, **types, **BAD}
    try:
        tables = [measured_rows(spark, source, wanted, plan, schema) for source in sources]
        rows = tables[0]
        for other in tables[1:]:
            rows = rows.unionAll(other)
        with _persisted(rows):
            found = readings(rows, sources, wanted, sinks)
            good = rows.filter(F.col("_bad_problem").isNull())
            if kept:
                _write_samples(good, kept, sinks, sum(each.rows for each in found))
            tallies = {feature.name: _tally(good, feature) for feature in plan.tallied}
            having = _having(good, plan)
            plan = plan.present([name for name, count in having.items() if count])
            groups = group_totals(spark, good, plan)
            outcome = Outcome(groups, found, having, tallies=tallies)
            if plan.resamples:
                outcome = outcome.resampled(resampled_groups(good, plan, groups))
            return _per_task(good, plan, outcome, sinks) if plan.per_task else outcome
    except PySparkException as error:
        raise DataError(
            f"Spark gave up: {last_line(error)}",
            fix="try --engine polars on a part of the data to see the row in question",
        ) from error


@contextmanager
def _persisted(rows: DataFrame) -> Iterator[None]:
    """Keep the rows in the cluster while they are read several times."""
    rows.persist()
    try:
        yield
    finally:
        rows.unpersist()


def _type_of(name: str, plan: Plan) -> pl.DataType:
    """The type of a per-sample column; what is no feature is a text."""
    return plan.schema.get(name, pl.String())


def _write_samples(rows: DataFrame, kept: dict[str, str], sinks: Sinks, expected: int) -> None:
    """Write per-sample values, part by part.

    Raises:
        DataError: Fewer or more rows arrived than were measured.
    """
    columns = [F.col(own).alias(f"_out_{sample}") for sample, own in kept.items()]
    written = 0
    for frame in part_by_part(rows.select(*columns)):
        written += frame.height
        sinks.samples(numbered(frame.rename(lambda n: n.removeprefix("_out_")), written))
    if written != expected:
        raise DataError(
            f"--per-sample: {written:,} rows arrived from the cluster, {expected:,} were measured",
            fix="run it again; if it stays so, the file changes while it is read",
        )


def _per_task(good: DataFrame, plan: Plan, outcome: Outcome, sinks: Sinks) -> Outcome:
    """Count the flaky tasks and find some, in the cluster; a row per task goes to its file."""
    rows = nw.from_native(good)
    tasks = task_totals(rows, plan)
    if sinks.wants_tasks:
        for part in part_by_part(with_answers(tasks, rows, plan).to_native()):
            sinks.tasks(part)
    add_totals(outcome.groups, collected(flaky_counts(tasks)))
    tried = None if (costs := attempts(tasks)) is None else collected(costs)
    columns = run_columns(plan, outcome.total(RECORDS))
    return replace(
        outcome,
        flakiest=collected(flakiest(tasks)),
        attempts=tried,
        runs=None if columns is None else sorted_runs(collected(rows.select(*columns))),
    )


def _having(good: DataFrame, plan: Plan) -> dict[str, int]:
    """How many rows have each watched field."""
    counts = (nw.col(has(name)).cast(nw.Int64).sum().alias(name) for name in plan.watched)
    [found] = collected(nw.from_native(good).select(*counts)).rows(named=True)
    return {name: count or 0 for name, count in found.items()}


def _tally(good: DataFrame, feature: Feature) -> pl.DataFrame:
    """How many rows of each group have each text: the most frequent, and the rest as one."""
    found = TextTally()
    text = F.col(feature.name).alias(TEXT)
    counted = good.filter(text.isNotNull()).groupBy(GROUP, text).agg(F.count("*").alias(ROWS))
    if rows := [row.asDict() for row in counted.orderBy(F.desc(ROWS)).limit(_TEXTS).collect()]:
        found.add(pl.DataFrame(rows))
    return found.table
