"""From records to features: the one batch function that every engine runs.

It turns a batch of records into a compact table: the group, the task, and a narrow column per
feature. No text of the input is left in it, except short answers. Watches see these rows on their
way, each with groups of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from calipers.engines.group_codes import (
    group_text,
    hash_in_all,
    hash_in_group,
    hash_texts,
    name_key_column,
    write_cluster,
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
    list_cluster_fields,
    name_kept,
    name_presence,
)
from calipers.metrics.declare.declaration import CLUSTER, GROUP, TASK
from calipers.metrics.user_defined import apply_function
from calipers.records.batch import CHECK, BadRow, Chunk, UnusualRows, select_column
from calipers.records.fields import TRUNCATED_REASONS, BadValue
from calipers.records.sinks import Watch

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
            _tell_calls_apart(plan, records.schema).alias(IDENTITY),
            *_mark_failed(plan),
            (cut_off.fill_null(value=False) & ~_FAILED_CALL).alias(TRUNCATED),
            *(
                select_column(name).is_not_null().alias(name_presence(name))
                for name in plan.watched
            ),
            *(
                select_column(name).alias(name_kept(name))
                for name in dict.fromkeys((*plan.by, *plan.kept))
            ),
            *(write_key(name, records).alias(name_key_column(name)) for name in plan.key_fields),
        )
    )
    task = hash_in_group("id")
    if plan.cells:
        task = pl.when(select_column("id").is_not_null()).then(hash_texts(GROUP, "id", *plan.cells))
    frame = frame.with_columns(task.alias(TASK))
    if plan.regrouped_by:
        frame = frame.with_columns(hash_in_all("id").alias(SAME_ID))
    if plan.cluster is not None:
        text = write_cluster(plan.cluster_fields, crossed=plan.crossed)
        frame = frame.with_columns(text.alias(CLUSTER_TEXT))
        frame = frame.with_columns(hash_in_group(CLUSTER_TEXT).alias(CLUSTER))
    if records["error"].null_count() < records.height:
        read = {name for feature in plan.features for name in feature.fields}
        read -= set(IDENTITY_FIELDS)  # a failed call is still one of its system's
        read -= _KEPT_OF_FAILURES if plan.counts_failures else set()
        failed = pl.col(FAILURE if plan.counts_failures else FAILED)
        frame = frame.with_columns(
            pl.when(~failed).then(select_column(name)) for name in sorted(read)
        )
    values = plan.feature_values.express(records)
    for layer in plan.feature_values.layers:
        frame = frame.with_columns(values[feature.name].alias(feature.name) for feature in layer)
    return frame


def _with_functions(plan: Plan, records: pl.DataFrame) -> pl.DataFrame:
    """Return the records with what the user's functions make of each."""
    functions = [feature for feature in plan.features if feature.of_record is not None]
    if not functions:
        return records
    failed = records.select(_FAILED_CALL.alias(FAILED)).to_series()
    return records.with_columns(apply_function(function, records, failed) for function in functions)


def _tell_calls_apart(plan: Plan, schema: pl.Schema) -> pl.Expr:
    """Return what tells a task's calls apart: nothing, where all are of its group's system."""
    own = () if plan.regrouped_by else plan.by  # in other groups it may be another's
    call_fields = [name for name in CALL_FIELDS if name not in own]
    if not call_fields:
        return pl.lit(None, dtype=pl.Int64)
    is_told = pl.any_horizontal(pl.col(call_fields).is_not_null())
    texts = [pl.col(name).cast(pl.String) for name in call_fields]
    if "run" in call_fields and schema["run"].is_float():  # of JSON; in a table of texts it is 1
        texts[call_fields.index("run")] = texts[call_fields.index("run")].str.strip_suffix(".0")
    return pl.when(is_told).then(pl.struct(texts).hash().reinterpret(signed=True))


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


_ID = "id"


def watch_groups(watch: Watch, by: tuple[str, ...], cluster: str | None) -> Watch:
    """Return the watch for rows that are read without groups: it sees those of these fields."""
    inner = list_cluster_fields(cluster)
    fields = (*by, *inner)
    given = {name: own for name, own in watch.columns.items() if own not in (GROUP, CLUSTER)}
    told_columns = {f"_told_{name}": name_kept(name) for name in fields}

    def take(rows: pl.DataFrame) -> None:
        named = rows.select(pl.col(f"_told_{name}").alias(name) for name in fields)
        groups = named.select(group_text(by).alias(GROUP)) if by else pl.lit("{}").alias(GROUP)
        rows = rows.drop(told_columns).with_columns(groups)
        if cluster is not None:
            text = named.select(write_cluster(inner, crossed=False)).to_series()
            number = pl.when(text.is_not_null()).then(text.hash().reinterpret(signed=True))
            rows = rows.with_columns(number.alias(CLUSTER))
        watch.take(rows)

    keep = tuple(dict.fromkeys((*watch.kept, *fields)))
    return replace(watch, kept=keep, columns=given | told_columns, take=take)


def watch_together(watches: Sequence[Watch]) -> Watch:
    """Return one watch that shows each of these what it asks for."""
    columns = {_ID: _ID}
    for place, watch in enumerate(watches):
        columns |= {f"{place}:{name}": own for name, own in watch.columns.items() if name != _ID}

    def take(rows: pl.DataFrame) -> None:
        for place, watch in enumerate(watches):
            own = (
                pl.col(_ID if name == _ID else f"{place}:{name}").alias(name)
                for name in watch.columns
            )
            watch.take(rows.select(own))

    keep = tuple(dict.fromkeys(name for watch in watches for name in watch.kept))
    return Watch(kept=keep, columns=columns, take=take)


def copy_texts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with texts of their own: in Polars, they hold those of the whole table."""
    return rows.with_columns(
        pl.Series(column.name, column.to_list(), dtype=pl.String)
        for column in rows.select(pl.col(pl.String))
        if column.null_count() < rows.height
    )
