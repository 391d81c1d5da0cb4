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

from calipers.engines.batches import number_rows
from calipers.engines.outcome import ROWS, TEXT, Outcome, Sinks, TextTally
from calipers.engines.per_task import (
    add_answers,
    count_flaky,
    find_flakiest,
    list_run_columns,
    price_tasks,
    sort_runs,
    sum_tasks,
)
from calipers.engines.plan import Plan, name_presence
from calipers.engines.spark.resampling import resample_groups
from calipers.engines.spark.rows import BAD, count_readings, measure_rows
from calipers.engines.spark.session import (
    collect_parts,
    collect_table,
    find_last_line,
    send_loaded_files,
    start_session,
)
from calipers.engines.spark.totals import sum_groups
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
    types = {name: _find_type(name, plan) for name in kept.values()}
    types |= {feature.name: feature.dtype for feature in plan.tallied}
    schema = {**plan.schema, **types, **BAD}
    try:
        tables = [measure_rows(spark, source, wanted, plan, schema) for source in sources]
        rows = tables[0]
        for other in tables[1:]:
            rows = rows.unionAll(other)
        with _persist(rows):
            found = count_readings(rows, sources, wanted, sinks)
            good = rows.filter(F.col("_bad_problem").isNull())
            if kept:
                _write_samples(good, kept, sinks, sum(each.rows for each in found))
            tallies = {feature.name: _tally(good, feature) for feature in plan.tallied}
            having = _count_present(good, plan)
            plan = plan.restrict([name for name, count in having.items() if count])
            groups = sum_groups(spark, good, plan)
            outcome = Outcome(groups, found, having, tallies=tallies)
            if plan.resamples:
                outcome = outcome.add_resampled(resample_groups(good, plan, groups))
            return _write_tasks(good, plan, outcome, sinks) if plan.per_task else outcome
    except PySparkException as error:
        raise DataError(
            f"Spark gave up: {find_last_line(error)}",
            fix="try --engine polars on a part of the data to see the row in question",
        ) from error


@contextmanager
def _persist(rows: DataFrame) -> Iterator[None]:
    """Keep the rows in the cluster while they are read several times, inside the block."""
    rows.persist()
    try:
        yield
    finally:
        rows.unpersist()


def _find_type(name: str, plan: Plan) -> pl.DataType:
    """Return the type of a per-sample column; text unless it is a feature."""
    return plan.schema.get(name, pl.String())


def _write_samples(rows: DataFrame, kept: dict[str, str], sinks: Sinks, expected: int) -> None:
    """Write per-sample values, part by part.

    Raises:
        DataError: Fewer or more rows arrived than were measured.
    """
    columns = [F.col(own).alias(f"_out_{sample}") for sample, own in kept.items()]
    written = 0
    for frame in collect_parts(rows.select(*columns)):
        written += frame.height
        sinks.take_samples(number_rows(frame.rename(lambda n: n.removeprefix("_out_")), written))
    if written != expected:
        raise DataError(
            f"--per-sample: {written:,} rows arrived from the cluster, {expected:,} were measured",
            fix="run it again; if it stays so, the file changes while it is read",
        )


def _write_tasks(good: DataFrame, plan: Plan, outcome: Outcome, sinks: Sinks) -> Outcome:
    """Count the flaky tasks and find some, in the cluster; write a row per task to its file."""
    rows = nw.from_native(good)
    tasks = sum_tasks(rows, plan)
    if sinks.wants_tasks:
        for part in collect_parts(add_answers(tasks, rows, plan).to_native()):
            sinks.take_tasks(part)
    add_totals(outcome.groups, collect_table(count_flaky(tasks)))
    tried = None if (costs := price_tasks(tasks)) is None else collect_table(costs)
    columns = list_run_columns(plan, outcome.sum_groups(RECORDS))
    return replace(
        outcome,
        flakiest=collect_table(find_flakiest(tasks)),
        attempts=tried,
        runs=None if columns is None else sort_runs(collect_table(rows.select(*columns))),
    )


def _count_present(good: DataFrame, plan: Plan) -> dict[str, int]:
    """Return how many rows have each watched field."""
    counts = (nw.col(name_presence(name)).cast(nw.Int64).sum().alias(name) for name in plan.watched)
    [found] = collect_table(nw.from_native(good).select(*counts)).rows(named=True)
    return {name: count or 0 for name, count in found.items()}


def _tally(good: DataFrame, feature: Feature) -> pl.DataFrame:
    """Return how many rows of each group have each text: the most frequent, the rest as one."""
    found = TextTally()
    text = F.col(feature.name).alias(TEXT)
    counted = good.filter(text.isNotNull()).groupBy(GROUP, text).agg(F.count("*").alias(ROWS))
    if rows := [row.asDict() for row in counted.orderBy(F.desc(ROWS)).limit(_TEXTS).collect()]:
        found.add(pl.DataFrame(rows))
    return found.table
