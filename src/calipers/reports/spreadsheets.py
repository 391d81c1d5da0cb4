"""CSV that spreadsheets only show: a text from outside that they would run gets an apostrophe.

>>> [safe_cell(each) for each in ("=1+1", "- no", "-0.5", -0.5, None)]
["'=1+1", "'- no", '-0.5', -0.5, None]
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_LINE_END = "\r\n"  # of the writer; ours is shorter
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


def safe_cell(value: Any) -> Any:
    """The value, a text that would be a formula with an apostrophe; a number may be a text."""
    is_formula = isinstance(value, str) and value.startswith(_FORMULA)
    return f"'{value}" if is_formula and not _NUMBER.fullmatch(value) else value


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Lines of CSV; an empty cell is a null."""
    return "".join(map(_line, rows))


def _line(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(map(safe_cell, cells))  # quotes what its own line end stands in
    return f"{out.getvalue().removesuffix(_LINE_END)}\n"


def frame_csv(frame: pl.DataFrame) -> str:
    """A frame with its header, whose names the user chose."""
    import polars as pl  # noqa: PLC0415 (heavy)

    safe = pl.col(pl.String).map_elements(safe_cell, return_dtype=pl.String)
    return frame.with_columns(safe).write_csv()
