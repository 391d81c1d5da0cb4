"""Read records from any source, and convert them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from calipers.records.convert import Converted, Progress, batches, convert_data, open_whole
from calipers.support.arguments import no_progress, path_of

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
