"""Records as they are: read, converted, pictured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from calipers.cli.api.arguments import no_progress, path_of
from calipers.records.convert import Converted, batches, convert_data, open_whole
from calipers.records.fields import BadValue
from calipers.reports.traces.picture import trace_picture
from calipers.scores import Progress
from calipers.support.errors import DataError, UsageError

if TYPE_CHECKING:
    pass


def read(data: Any, *, rename: Mapping[str, str] | None = None) -> pl.DataFrame:
    """The records in `data` as a Polars frame: checked, in the record's types, all fields kept.

    >>> read([{"question": "2 + 2", "answer": 4}], rename={"input": "question"}).row(0, named=True)
    {'input': '2 + 2', 'answer': '4'}
    """
    frames = []
    for source in open_whole(data):
        for batch, _ in batches(source, rename or {}):
            if batch.bad:
                raise batch.bad[0].error()
            frames.append(batch.frame)
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def convert(
    data: Any,
    output: str | Path,
    *,
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    bad_rows: str | Path | None = None,
    progress: Progress = no_progress,
) -> Converted:
    """Write the records in `data`, any log that `score` reads, to a .parquet or .jsonl file."""
    return convert_data(
        data,
        Path(output),
        renames=rename or {},
        skip_bad=on_bad == "skip",
        bad_rows=path_of(bad_rows),
        progress=progress,
    )


def trace_svg(
    trace: Any,
    *,
    graph: Literal["tools", "agents"] | None = None,
    start: str | None = None,
    goal: str | None = None,
) -> str:
    """A picture of one trace, an object or its JSON text, as SVG.

    The graph of its tools with the shortest way from start to goal, or of its agents with the most
    central one; without a choice the tools, if any was called.

    >>> trace_svg({"tool_calls": [{"tool_name": "search"}, {"tool_name": "write"}]})[:4]
    '<svg'
    """
    if graph not in (None, "tools", "agents"):
        raise UsageError(f"no graph of a trace is called {graph}", fix="tools or agents")
    try:
        return trace_picture(trace, graph=graph, start=start, goal=goal)
    except BadValue as problem:
        raise DataError(f"trace: {problem}", fix="mend the trace; other keys are ignored") from None
