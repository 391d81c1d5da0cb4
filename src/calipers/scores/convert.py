"""`convert`: any log as a file of records, or the tasks of those that fail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from calipers.records.convert import Converted, Progress, convert_data
from calipers.records.reading_options import ConvertOptions, declare_keywords
from calipers.support.options import as_path, ignore_progress, list_own_options, read_keywords

if TYPE_CHECKING:
    from calipers.support.keywords import ConvertKeywords

_OWN = list_own_options("convert", ConvertOptions)


@declare_keywords("convert", _OWN, _OWN)
def convert(
    data: Any,
    output: str | Path,
    *,
    progress: Progress = ignore_progress,
    **options: Unpack[ConvertKeywords],
) -> Converted:
    """Write the records in `data`, any log that `score` reads, to a .parquet or .jsonl file.

    With `tasks`, write what the failing, flaky or flagged ones were asked, as data of a suite.

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
    asked = read_keywords("convert", ConvertOptions, options)
    place = as_path("output", output)
    if asked.tasks is None:
        return convert_data(data, place, asked, progress)
    from calipers.scores.promoted_tasks import write_tasks  # noqa: PLC0415 (loads the metrics)

    return write_tasks(data, place, asked.tasks, asked, progress)
