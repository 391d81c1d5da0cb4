"""The share of calls that chose the optimal tool, which a file names for each context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import polars as pl

from calipers.metrics.traces.graphs.graphs import explode_lists
from calipers.records.trace_shape import read_tool_map
from calipers.support.config.files import read_config, shown
from calipers.support.errors import UsageError
from calipers.support.late import np
from calipers.support.quick_dataclasses import dataclass

ANY_CONTEXT = "*"
_EXAMPLE = 'for example "find the paper": search, and "*": think for every other context'


@dataclass(frozen=True, slots=True)
class OptimalTools:
    """The optimal tool by context, and where that is from."""

    source: str
    by_context: Mapping[str, str] = field(hash=False)

    def of(self, contexts: pl.Series) -> pl.Series:
        """Return the optimal tool in each context; null without one.

        That of the very context, else of the longest key that the context contains (of equally
        long ones the first in the alphabet), else of `*`.
        """
        tools = pl.Series([self.by_context.get(ANY_CONTEXT)], dtype=pl.String)
        tools = tools.new_from_index(0, len(contexts))
        keys = sorted(self.by_context.keys() - {ANY_CONTEXT}, reverse=True)
        for key in sorted(keys, key=len):  # longer keys override shorter ones
            contained = contexts.str.contains(key, literal=True)
            tools = tools.set(contained, self.by_context[key])
        exact = contexts.replace_strict(self.by_context, default=None, return_dtype=pl.String)
        return exact.fill_null(tools)


def read_optimal_tools(path: str | Path) -> OptimalTools:
    """Read the optimal tools from a YAML or JSON file: `{context: tool}`."""
    return check_tools(read_config(path, example=_EXAMPLE).value, source=str(path))


def check_tools(table: Any, *, source: str) -> OptimalTools:
    """Return the optimal tools in a table read from a file; errors name source and context."""
    if not isinstance(table, Mapping) or not table:
        raise UsageError(f"{source}: no contexts and tools in it", fix=_EXAMPLE)
    for context, tool in table.items():
        for text in (context, tool):
            if not isinstance(text, str):
                raise UsageError(
                    f"{source}: in the entry of {shown(context)}: {shown(text)} is not text, "
                    "as contexts and names of tools are",
                    fix="put it in quotes",
                )
    return OptimalTools(source, dict(table))


def measure_selection(
    calls: pl.Series, tools: OptimalTools | None, own: pl.Series | None = None
) -> pl.DataFrame:
    """Return each row's share of calls that chose the optimal tool, and the calls without one.

    Args:
        calls: The calls of each row.
        tools: What holds for all rows.
        own: What a row says itself, as JSON; it goes before what holds for all.

    Returns:
        A row each; null where there are no calls to look at, or nothing says which tool is best.

    >>> tools = check_tools({"find": "search", "*": "think"}, source="tools.yaml")
    >>> right = {"tool_name": "search", "context": "find a cat"}
    >>> wrong = {"tool_name": "open", "context": ""}
    >>> measure_selection(pl.Series([[right, wrong]]), tools)["share"].item()
    0.5
    """
    own = pl.Series([None], dtype=pl.String).new_from_index(0, len(calls)) if own is None else own
    rows, items = explode_lists(calls)
    right, unmapped = np.zeros((2, len(calls)), dtype=np.int64)
    if len(rows):
        optimal = _find_optimal(items["context"].fill_null(""), own.gather(rows), tools)
        is_right = (items["tool_name"] == optimal).fill_null(value=False).to_numpy()
        right = np.bincount(rows[is_right], minlength=len(calls))
        unmapped = np.bincount(rows[optimal.is_null().to_numpy()], minlength=len(calls))
    total = np.maximum(calls.list.len().fill_null(0).to_numpy(), 1)
    found = pl.DataFrame({"share": right / total, "unmapped": unmapped})
    known = calls.is_not_null() & (own.is_not_null() | (tools is not None))
    return found.with_columns(pl.when(known).then(pl.all()))


def _find_optimal(contexts: pl.Series, own: pl.Series, tools: OptimalTools | None) -> pl.Series:
    """Return the optimal tool of each call: by its row's own table, else by that of all rows."""
    found = pl.Series([None], dtype=pl.String).new_from_index(0, len(contexts))
    if tools is not None:
        distinct = contexts.unique()
        found = contexts.replace_strict(distinct, tools.of(distinct), return_dtype=pl.String)
    if own.null_count() == len(own):
        return found
    pairs = pl.DataFrame({"own": own, "context": contexts, "all": found})
    distinct_pairs = pairs.filter(pl.col("own").is_not_null()).select("own", "context").unique()
    tables = [
        group.with_columns(best=OptimalTools("", read_tool_map(text)).of(group["context"]))
        for (text,), group in distinct_pairs.group_by("own")
    ]
    joined = pairs.join(pl.concat(tables), on=["own", "context"], how="left", maintain_order="left")
    return joined.select(pl.coalesce("best", "all")).to_series()
