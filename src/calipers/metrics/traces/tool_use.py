"""Tool efficiency (P, tier 3): how direct the path was, and how often the right tool was chosen."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

import polars as pl

from calipers.metrics.declare.columns import declare_part, map_known
from calipers.metrics.declare.declaration import Feature, Totals, add_up
from calipers.metrics.declare.means import declare_sums
from calipers.metrics.declare.settings import Settings
from calipers.metrics.traces.graphs.graphs import measure_convergence
from calipers.metrics.traces.graphs.tools import measure_selection
from calipers.metrics.traces.trace import OPTIMAL_TOOLS, declare_count, mean_of_traces, part, trace

_SELECTED = pl.Struct({"share": pl.Float64(), "unmapped": pl.Int64()})


path_convergence = Feature(
    "path_convergence",
    (trace,),
    lambda settings: map_known(
        part("tool_calls"),
        partial(measure_convergence, start=settings.start, goal=settings.goal),
        pl.Float64(),
    ),
)


def _express_selection(settings: Settings) -> pl.Expr:
    def of_batch(rows: pl.Series) -> pl.Series:
        calls, own = rows.struct.field("tool_calls"), rows.struct.field(OPTIMAL_TOOLS)
        return measure_selection(calls, settings.optimal_tools, own).to_struct(rows.name)

    both = pl.struct(part("tool_calls"), OPTIMAL_TOOLS)
    known = pl.when(part("tool_calls").is_not_null()).then(both)
    return map_known(known, of_batch, _SELECTED)


_selected = Feature(
    "_tool_selection", (trace, OPTIMAL_TOOLS), _express_selection, _SELECTED, stored=False
)

tool_selection_accuracy = declare_part("tool_selection_accuracy", _selected, "share")
_unmapped = declare_part("_unmapped_calls", _selected, "unmapped")
_calls = declare_count("_tool_calls", part("tool_calls").list.len())

path_convergence_mean = mean_of_traces(
    path_convergence,
    says="How direct the way through the tools was: 1 with no step too many, 0 with no way.",
    formula="mean(shortest path from start to goal / steps taken from the start's first call "
    "to the goal's last)",
    spec="P 3.1",
    nulls="a row whose trace has no `tool_calls` is left out; without calls it is 0",
    range=(0, 1),
    better="higher",
    empty="no record has a trace with tool_calls",
)


def _explain_no_tools(totals: Totals) -> str | None:
    if totals.get("tool_selection_accuracy__n") or not totals.get("tool_calls__traces"):
        return None
    return (
        "which tool each context calls for is not known: give a file with --optimal-tools, "
        "or optimal_tools in the records"
    )


tool_selection_mean = mean_of_traces(
    tool_selection_accuracy,
    says="The share of calls that chose the tool their context calls for, by the record's own "
    "`optimal_tools` or --optimal-tools.",
    formula="mean(calls whose tool_name is the optimal tool of their context / calls)",
    spec="P 3.2",
    nulls="a row whose trace has no `tool_calls`, or for which nothing says the optimal tools, "
    "is left out; without calls it is 0",
    range=(0, 1),
    better="higher",
    empty="no record has a trace with tool_calls",
    aggregate=declare_sums(
        tool_selection_accuracy,
        _calls,
        _unmapped,
        tool_calls__traces=pl.col(_calls.name).count(),
        tool_calls__sum=pl.col(_calls.name).sum(),
        tool_calls__unmapped=pl.col(_unmapped.name).sum(),
    ),
    extras={"calls": "tool_calls__sum", "unmapped_calls": "tool_calls__unmapped"},
    refused=_explain_no_tools,
)


def note_tools(groups: Collection[Totals], settings: Settings) -> Iterator[str]:
    """Yield how many calls count as wrong because the mapping lacks their context."""
    if unmapped := add_up(groups, "tool_calls__unmapped"):
        given = settings.optimal_tools
        source = "their own optimal_tools" if given is None else given.source
        yield (
            f"{unmapped} of {add_up(groups, 'tool_calls__sum')} calls count as a wrong choice of "
            f"tool: {source} names none for their context, and has no '*'"
        )
