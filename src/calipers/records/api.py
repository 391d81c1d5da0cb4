"""Read records from any source, and convert them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import polars as pl

from calipers.records.convert import Converted, Progress, convert_data, open_whole, read_batches
from calipers.records.reading import take_reading
from calipers.support.arguments import (
    as_path,
    as_path_if_any,
    ignore_progress,
    refuse_renamed,
)


@refuse_renamed
@take_reading
def read(
    data: Any,
    *,
    map: Mapping[str, str] | None = None,  # noqa: A002
    source: str | None = None,
    join: str | Path | None = None,
    on: str | None = None,
) -> pl.DataFrame:
    """Read records as a Polars frame: checked, in the record's types, all fields kept.

    Args:
        data: Records, as `score` takes them.
        map: The data's names of the record's fields.
        source: The tool whose logs these are, whatever is in them; "records" if of none.
        join: A file of tasks, whose fields are added to the records.
        on: With `join`: the field that is the same in record and task; `id` by default.

    Returns:
        A row per record.

    >>> read([{"question": "2 + 2", "answer": 4}], map={"input": "question"}).row(0, named=True)
    {'input': '2 + 2', 'answer': '4'}
    """
    del source, join, on  # applied by take_reading
    frames = []
    for opened in open_whole(data):
        for batch, _ in read_batches(opened, map or {}):
            if batch.bad:
                raise batch.bad[0].make_error()
            frames.append(batch.frame)
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


@refuse_renamed
@take_reading
def convert(
    data: Any,
    output: str | Path,
    *,
    map: Mapping[str, str] | None = None,  # noqa: A002
    on_bad: Literal["stop", "skip"] = "stop",
    bad_rows: str | Path | None = None,
    source: str | None = None,
    join: str | Path | None = None,
    on: str | None = None,
    engine: Literal["polars", "spark"] | None = None,
    spark_master: str | None = None,
    progress: Progress = ignore_progress,
) -> Converted:
    """Write the records in `data`, any log that `score` reads, to a .parquet or .jsonl file.

    Args:
        data: Records, as `score` takes them.
        output: The file to write.
        map: The data's names of the record's fields.
        on_bad: Stop at the first bad row, or leave bad rows out and count them.
        bad_rows: With `on_bad="skip"`: a .jsonl file for the bad rows and their reasons.
        source: The tool whose logs these are, whatever is in them; "records" if of none.
        join: A file of tasks, whose fields are added to the records.
        on: With `join`: the field that is the same in record and task; `id` by default.
        engine: Read on this machine, or by a Spark cluster.
        spark_master: Start Spark on a cluster, by its address.
        progress: Is given the share of the work that is done, from 0 to 1.

    Returns:
        Where the records are, how many there are, and their columns.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     convert([{"id": "a", "answer": "4"}], f"{folder}/records.parquet").columns
    ('id', 'answer')
    """
    del source, join, on  # applied by take_reading
    if spark_master is not None:
        from calipers.records.spark.master import choose_master  # noqa: PLC0415 (an extra)

        choose_master(spark_master)
    return convert_data(
        data,
        as_path("output", output),
        field_map=map or {},
        skip_bad=on_bad == "skip",
        bad_rows=as_path_if_any("bad_rows", bad_rows),
        engine=engine,
        progress=progress,
    )
