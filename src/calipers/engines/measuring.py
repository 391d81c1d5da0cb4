"""From records to features: the one batch function that every engine runs.

It turns a batch of records into a compact table: the group, the task, and a narrow column per
feature. No text of the input is left in it, except short answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from calipers.engines.codes import (
    hash_in_all,
    hash_in_group,
    hash_texts,
    name_key,
    write_groups,
    write_key,
)
from calipers.engines.plan import (
    CALL_FIELDS,
    CLUSTER_TEXT,
    FAILED,
    FAILURE,
    IDENTITY,
    IDENTITY_FIELDS,
    SAME_ID,
    TRUNCATED,
    Plan,
    name_kept,
    name_presence,
)
from calipers.metrics.declare.declaration import CLUSTER, GROUP, TASK
from calipers.metrics.own.functions import apply_function
from calipers.records.fields import TRUNCATED_REASONS, BadValue
from calipers.records.sources import CHECK, BadRow, Chunk, UnusualRows
from calipers.support.quick_dataclasses import dataclass

_NOT_AN_ERROR = ("", "false")
_FAILED_CALL = pl.col("error").is_not_null() & ~pl.col("error").is_in(_NOT_AN_ERROR)
_KEPT_OF_FAILURES = {"cost_usd", "category", "capability"}  # what was spent, and on what


def measure_records(plan: Plan, records: pl.DataFrame) -> pl.LazyFrame:
    """Return the records with every feature; the plan's `schema` names the compact columns."""
    if plan.settings.checks:
        details = "checks" in plan.kept
        records = plan.settings.checks.apply(records, plan.settings, details=details)
    cut_off = pl.col("finish_reason").str.to_lowercase().is_in(TRUNCATED_REASONS)
    if records["finish_reason"].null_count() == records.height:
        cut_off = pl.lit(value=False)
    frame = (
        _with_functions(plan, records)
        .lazy()
        .with_columns(
            write_groups(records, plan.by).alias(GROUP),
            _tell_calls_apart(plan).alias(IDENTITY),
            *_mark_failed(plan),
            (cut_off.fill_null(value=False) & ~_FAILED_CALL).alias(TRUNCATED),
            *(pl.col(name).is_not_null().alias(name_presence(name)) for name in plan.watched),
            *(
                pl.col(name).alias(name_kept(name))
                for name in dict.fromkeys((*plan.by, *plan.kept))
            ),
            *(write_key(name, records).alias(name_key(name)) for name in plan.key_fields),
        )
    )
    frame = frame.with_columns(hash_in_group("id").alias(TASK))
    if plan.regrouped_by:
        frame = frame.with_columns(hash_in_all("id").alias(SAME_ID))
    if plan.cluster is not None:
        text = pl.col(plan.cluster).cast(pl.String).alias(CLUSTER_TEXT)
        frame = frame.with_columns(hash_in_group(plan.cluster).alias(CLUSTER), text)
    if records["error"].null_count() < records.height:
        read = {name for feature in plan.features for name in feature.fields}
        read -= set(IDENTITY_FIELDS)  # a failed call is still one of its system's
        read -= _KEPT_OF_FAILURES if plan.counts_failures else set()
        failed = pl.col(FAILURE if plan.counts_failures else FAILED)
        frame = frame.with_columns(pl.when(~failed).then(pl.col(name)) for name in sorted(read))
    values = plan.feature_values.express(records)
    for layer in plan.feature_values.layers:
        frame = frame.with_columns(values[each.name].alias(each.name) for each in layer)
    return frame


def _with_functions(plan: Plan, records: pl.DataFrame) -> pl.DataFrame:
    """Return the records with what the user's functions make of each."""
    functions = [each for each in plan.features if each.of_record is not None]
    if not functions:
        return records
    failed = records.select(_FAILED_CALL.alias(FAILED)).to_series()
    return records.with_columns(apply_function(each, records, failed) for each in functions)


def _tell_calls_apart(plan: Plan) -> pl.Expr:
    """Return what tells a task's calls apart: nothing, where all are of its group's system."""
    own = () if plan.regrouped_by else plan.by  # in other groups it may be another's
    told = [name for name in CALL_FIELDS if name not in own]
    if not told:
        return pl.lit(None, dtype=pl.Int64)
    is_told = pl.any_horizontal(pl.col(told).is_not_null())
    return pl.when(is_told).then(hash_texts(*told))


def _mark_failed(plan: Plan) -> Iterator[pl.Expr]:
    """Yield whether a call failed, as a record to leave out or as a failure to count."""
    if plan.counts_failures:
        yield _FAILED_CALL.alias(FAILURE)
    yield (pl.lit(value=False) if plan.counts_failures else _FAILED_CALL).alias(FAILED)


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """Some rows with their features, the bad rows among them, and how far we are."""

    rows: pl.DataFrame
    bad: tuple[BadRow, ...]
    done: float


def measure_chunk(chunk: Chunk, plan: Plan, columns: Sequence[str]) -> MeasuredBatch:
    """Return the measured chunk: the fast way if its checks hold, else row by row."""
    try:
        records = chunk.lazy().collect(engine="in-memory")
        checks = [name for name in records.columns if name.startswith(CHECK)]
        plain_keys = not any(records.schema[name].is_nested() for name in plan.keys)
        if plain_keys and chunk.is_trusted(records.select(checks)):
            return MeasuredBatch(_measure(records.drop(checks), plan, columns), (), chunk.done)
    except (pl.exceptions.PolarsError, UnusualRows, BadValue):
        pass
    batch = chunk.exact()
    return MeasuredBatch(_measure(batch.frame, plan, columns), batch.bad, chunk.done)


def _measure(records: pl.DataFrame, plan: Plan, columns: Sequence[str]) -> pl.DataFrame:
    # The in-memory engine: a batch function sees the whole batch once, not in many small pieces.
    return measure_records(plan, records).select(*columns).collect(engine="in-memory")


def number_rows(rows: pl.DataFrame, last: int) -> pl.DataFrame:
    """Return the rows with a number, from 1, if they have no id; `last` is the last one given."""
    if not rows["id"].null_count():
        return rows
    number = pl.int_range(last - rows.height + 1, last + 1, dtype=pl.Int64).cast(pl.String)
    return rows.with_columns(pl.coalesce("id", number))
