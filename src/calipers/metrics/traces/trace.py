"""The traces of runs, decoded once for all metrics: calls, messages, and the balance of tasks.

Polars reads JSON lines straight into these columns, and so it does with texts from elsewhere. What
it could take for something else (it writes a list out where a text should be) is odd: such rows are
read one by one, which also says what is wrong with a trace of the wrong shape.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import chain
from math import inf
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.metrics.declare.means import mean
from calipers.metrics.declare.settings import Settings
from calipers.metrics.traces.graphs.graphs import Floats
from calipers.records.fields import BadValue
from calipers.records.trace_shape import AS_READ, CALLS, MESSAGES, Trace, read_trace
from calipers.support.late import np

mean_of_traces = partial(mean, needs=("trace",), optional="unless asked for")

OPTIMAL_TOOLS = "optimal_tools"  # a record's own: it goes before the file of that name

DECODED = pl.Struct({"tool_calls": CALLS, "agent_interactions": MESSAGES, "balance": pl.Float64()})
"""Traces as the metrics read them; of the agents' tasks only the balance is wanted."""

_OBJECT = r"^\s*\{"
_MAYBE_UNESCAPED = r"(?s)^[\[{].*[\\\x00-\x1f]"
_FEWEST_UNEVEN = 2  # agents
_LENIENT = json.JSONDecoder(strict=False)  # line breaks in names, which Polars does not escape


def _decode(settings: Settings) -> pl.Expr:
    def of_batch(rows: pl.Series) -> pl.Series:
        own = rows.struct.field(OPTIMAL_TOOLS)
        contexts = settings.optimal_tools is not None or own.null_count() < len(own)
        return decode_traces(rows.struct.field("trace"), contexts=contexts)

    return pl.struct("trace", OPTIMAL_TOOLS).map_batches(of_batch, return_dtype=DECODED)


trace = Feature("_trace", ("trace", OPTIMAL_TOOLS), _decode, DECODED, stored=False)


def part(name: str) -> pl.Expr:
    """Return the column of one part of the traces: a list per row, null without it."""
    return pl.col(trace.name).struct.field(name)


def declare_count(name: str, expression: pl.Expr) -> Feature:
    """Return the feature of the number of things in a row's trace."""
    return Feature(name, (trace,), lambda _: expression, pl.Int64())


def decode_traces(traces: pl.Series, *, contexts: bool = True) -> pl.Series:
    """Return the traces' parts, null if missing; raise BadValue for a trace of wrong shape.

    Without `contexts` nobody asks for these, and they need not be exact.

    >>> trace = '{"tool_calls": [{"tool_name": "search"}], "agent_tasks": {"a": 2, "b": 2}}'
    >>> decode_traces(pl.Series([trace])).struct.field("balance").item()
    1.0
    """
    if traces.null_count() == len(traces):
        return pl.repeat(None, len(traces), dtype=DECODED, eager=True).alias(traces.name)
    if traces.dtype == AS_READ:
        parts, odd = _convert_parts(traces.struct.unnest(), traces.is_not_null(), contexts=contexts)
        if odd.any():
            raise BadValue("a trace that must be read as text")
        return parts.alias(traces.name)
    there = traces.is_not_null()
    parts = _decode_texts(traces.filter(there), contexts=contexts)
    if there.all():
        return parts.alias(traces.name)
    places = (there.cum_sum() - there.cast(pl.UInt32)).set(~there, None)
    return parts.gather(places).alias(traces.name)


def _decode_texts(texts: pl.Series, *, contexts: bool) -> pl.Series:
    try:
        frame = _read_lines(texts)
    except pl.exceptions.PolarsError:
        return _decode_singly(texts)
    parts, odd = _convert_parts(frame, texts.is_not_null(), contexts=contexts)
    if not odd.any():
        return parts
    rows = pl.DataFrame({"trace": parts, "odd": odd})
    rows = rows.with_columns(pl.when("odd").then(pl.col("odd").cum_sum() - 1).alias("place"))
    exact = pl.lit(_decode_singly(texts.filter(odd)))
    return rows.select(
        pl.when("odd").then(exact.gather("place")).otherwise("trace").alias(texts.name)
    ).to_series()


def _read_lines(texts: pl.Series) -> pl.DataFrame:
    """Return a row per text, if each is an object and so can stand on a line of its own."""
    if not texts.str.contains(_OBJECT).all():
        raise pl.exceptions.ComputeError("not an object a line")
    if texts.str.contains("\n", literal=True).any():  # between tokens: a text has none unescaped
        texts = texts.str.replace_all("\n", " ", literal=True)
    lines = texts.str.join("\n").cast(pl.Binary).item()
    frame = pl.read_ndjson(lines or b"", schema=dict(AS_READ))
    if frame.height != len(texts):
        raise pl.exceptions.ComputeError("not an object a line")
    return frame


def _convert_parts(
    frame: pl.DataFrame, there: pl.Series, *, contexts: bool
) -> tuple[pl.Series, pl.Series]:
    """Return what Polars has read in the metrics' types, and which rows are unusual."""
    balance, odd_tasks = _measure_tasks(frame["agent_tasks"])
    found = frame.select(
        pl.when(there)
        .then(pl.struct("tool_calls", "agent_interactions", balance).cast(DECODED))
        .alias("trace"),
        odd=pl.any_horizontal(
            pl.col("tool_calls").list.eval(_is_odd_call(contexts=contexts)).list.any(),
            pl.col("agent_interactions").list.eval(_is_odd_message()).list.any(),
        ).fill_null(value=False),
    )
    return found["trace"], found["odd"] | odd_tasks


def _is_odd_call(*, contexts: bool) -> pl.Expr:
    tool, context = (pl.element().struct.field(key) for key in ("tool_name", "context"))
    odd = tool.is_null() | _may_be_nested(tool)
    # An object is written out, but its backslashes and line breaks are not escaped.
    return odd | context.str.contains(_MAYBE_UNESCAPED) if contexts else odd


def _is_odd_message() -> pl.Expr:
    texts = (pl.element().struct.field(key) for key in ("from", "to", "type"))
    return pl.any_horizontal(pl.element().is_null(), *map(_may_be_nested, texts))


def _may_be_nested(text: pl.Expr) -> pl.Expr:
    return text.str.starts_with("[") | text.str.starts_with("{")


def _measure_tasks(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the balance of the agents' tasks, and the rows with unusual counts."""
    there = texts.is_not_null()
    counts = [_read_counts(text) for text in texts.filter(there)]
    balance, odd = np.full(len(texts), np.nan), np.zeros(len(texts), dtype=bool)
    balance[there] = measure_balance([each or () for each in counts])
    odd[there] = [each is None for each in counts]
    return pl.Series("balance", balance).fill_nan(None), pl.Series(odd)


def measure_balance(counts: Sequence[Sequence[float]]) -> Floats:
    """Return 1 − deviation / mean of each run's counts of tasks by agent; never below 0.

    The deviation is a sample's (n − 1). Fewer than two agents, or no task at all, is even.

    >>> measure_balance([[4, 4], [2, 4, 6], [0, 9], [0, 0], []]).round(3).tolist()
    [1.0, 0.5, 0.0, 1.0, 1.0]
    """
    agents = np.fromiter(map(len, counts), dtype=np.int64, count=len(counts))
    runs = np.repeat(np.arange(len(counts)), agents)
    tasks = np.fromiter(chain.from_iterable(counts), dtype=np.float64, count=len(runs))
    most = np.zeros(len(counts))
    np.maximum.at(most, runs, tasks)
    spread = np.flatnonzero((agents >= _FEWEST_UNEVEN) & (most > 0))
    shares = tasks / np.where(most > 0, most, 1.0)[runs]  # of the most: no square overflows
    means = np.bincount(runs, shares, len(counts)) / np.maximum(agents, 1)
    squares = np.bincount(runs, (shares - means[runs]) ** 2, len(counts))
    balance = np.ones(len(counts))
    deviations = np.sqrt(squares[spread] / (agents[spread] - 1))
    balance[spread] = np.maximum(0.0, 1 - deviations / means[spread])
    return balance


def _read_counts(text: str) -> Sequence[float] | None:
    try:
        tasks = _LENIENT.decode(text)
    except (ValueError, RecursionError):
        return None
    # As many values as marks of a key: none is written twice, none holds such a mark.
    if not isinstance(tasks, dict) or len(tasks) != text.count('": '):
        return None
    counts = list(tasks.values())
    usual = {*map(type, counts)} <= {int, float} and (
        not counts or 0 <= min(counts) <= max(counts) < inf
    )
    return counts if usual else None


def _decode_singly(texts: pl.Series) -> pl.Series:
    return pl.Series(texts.name, [_as_row(read_trace(text)) for text in texts], dtype=DECODED)


def _as_row(trace: Trace | None) -> dict[str, Any] | None:
    if trace is None:
        return None
    calls, messages, tasks = trace.tool_calls, trace.agent_interactions, trace.agent_tasks
    return {
        "tool_calls": None if calls is None else [call._asdict() for call in calls],
        "agent_interactions": None
        if messages is None
        else [{"from": each.sender, "to": each.receiver, "type": each.type} for each in messages],
        "balance": None if tasks is None else float(measure_balance([list(tasks.values())])[0]),
    }
