"""The rows of any source as Python objects, for readers that do not work on columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from calipers.records.batch import Source
from calipers.records.csv_file import Csv
from calipers.records.fields import BadValue, is_text, load_json
from calipers.records.jsonl import JsonLines
from calipers.records.rows import read_rows
from calipers.records.tables import Rows, SourceTable
from calipers.support.errors import DataError

_SLICE = 2_000


def iterate_rows(source: Source) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Yield each row and the share of the source behind it; numbers of JSON as they are written.

    Raises:
        DataError: A line is no JSON object.
    """
    if isinstance(source, JsonLines):
        yield from _walk_lines(source)
    elif isinstance(source, Csv | SourceTable):
        for frame, done in source.frames() if isinstance(source, Csv) else source.frames(_SLICE):
            yield from ((row, done) for row in frame.iter_rows(named=True))
    elif isinstance(source, Rows):
        yield from ((row, 1.0) for row in source.list_rows())
    else:
        raise DataError(
            f"{source.name}: cannot be read row by row",
            fix="convert it first: calipers convert FILES -o records.parquet",
        )


def _walk_lines(source: JsonLines) -> Iterator[tuple[Mapping[str, Any], float]]:
    for block, done in source.blocks():
        for number, _, row in read_rows(block.data, block.first + 1):
            if isinstance(row, BadValue):
                raise DataError(
                    f"{source.name}:{number}: {row}",
                    fix="check that the file is whole, or leave the line out",
                )
            yield row, done


def parse_cell(value: Any) -> Any:
    """Return what a table's cell holds: a list or an object may be in it as JSON text.

    >>> parse_cell('{"a": [1]}'), parse_cell("[not JSON]"), parse_cell("4")
    ({'a': [1]}, '[not JSON]', '4')
    """
    return load_json(value, value) if is_text(value) and value[:1] in ("{", "[") else value
