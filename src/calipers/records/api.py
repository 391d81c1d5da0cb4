"""Read records from any source, and convert them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import polars as pl

from calipers.records.convert import Converted, Progress, convert_data, open_whole, read_batches
from calipers.records.options import ReadingOptions
from calipers.records.signatures import declare_keywords
from calipers.support.arguments import as_path, ignore_progress, read_keywords
from calipers.support.options import list_own_options

if TYPE_CHECKING:
    from calipers.support.keywords import ConvertKeywords, ReadKeywords

_OF_READ, _OF_CONVERT = (list_own_options(name, ReadingOptions) for name in ("read", "convert"))


@declare_keywords("read", _OF_READ, _OF_READ)
def read(data: Any, **options: Unpack[ReadKeywords]) -> pl.DataFrame:
    """Read records as a Polars frame: checked, in the record's types, all fields kept.

    Args:
        data: Records, as `score` takes them.
        options: Listed below, and on docs/options.md.

    Returns:
        A row per record.

    >>> read([{"question": "2 + 2", "answer": 4}], map={"input": "question"}).row(0, named=True)
    {'input': '2 + 2', 'answer': '4'}
    """
    asked = read_keywords("read", ReadingOptions, options)
    frames = []
    for opened in open_whole(data):
        for batch, _ in read_batches(opened, asked.map):
            if batch.bad:
                raise batch.bad[0].make_error()
            frames.append(batch.frame)
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


@declare_keywords("convert", _OF_CONVERT, _OF_CONVERT)
def convert(
    data: Any,
    output: str | Path,
    *,
    progress: Progress = ignore_progress,
    **options: Unpack[ConvertKeywords],
) -> Converted:
    """Write the records in `data`, any log that `score` reads, to a .parquet or .jsonl file.

    Args:
        data: Records, as `score` takes them.
        output: The file to write.
        progress: Is given the share of the work that is done, from 0 to 1.
        options: Listed below, and on docs/options.md.

    Returns:
        Where the records are, how many there are, and their columns.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     convert([{"id": "a", "answer": "4"}], f"{folder}/records.parquet").columns
    ('id', 'answer')
    """
    asked = read_keywords("convert", ReadingOptions, options)
    return convert_data(data, as_path("output", output), asked, progress)
