"""JSON lines, read by either reader."""

from __future__ import annotations

import polars as pl
from hypothesis import strategies as st

from calipers.records.batch import CHECK, UnusualRows
from calipers.records.readers.line_chunk import JsonLinesChunk

FIELDS = (
    *("id", "answer", "target", "reference", "cot"),
    *("prob_correct", "latency_ms", "correct", "run", "tag"),
)


def read_fast(block: JsonLinesChunk) -> pl.DataFrame | None:
    """What the fast reader gives, None where it leaves the block to the exact one."""
    try:
        frame = block.lazy().collect()
    except (pl.exceptions.PolarsError, UnusualRows):
        return None
    checks = [name for name in frame.columns if name.startswith(CHECK)]
    return frame.drop(checks) if block.is_trusted(frame.select(checks)) else None


_NUMBERS = (
    "0 -0 1 7 -3 18.0 18.50 1e3 1E5 -2.5e-7 1e300 1e400 0.30000000000000004 9007199254740993 "
    "123456789012345678901234567890 -9223372036854775809 18446744073709551616 5e-324 1.5 -0.0"
)
_REFUSED = 'NaN Infinity -Infinity 01 +1 .5 1. \'a\' nul tru "\\q" "a\tb" "\ud7ff'
_TEXTS = (
    '""',
    '"a"',
    '"18.50"',
    '"[1]"',
    '"{"',
    '"true"',
    '"a\u2028b\x85c"',
    '"\\u2028 \\u0000 \\n \\""',
    '"\\ud83d\\ude00"',
    '"half \\ud83d"',
    '"\\ud83dhalf"',
    '"\\ude00"',
    '"é"',
)
_NESTED = ("[]", "{}", "[1.50]", '{"answer": 1.50}', '{"a": {"b": [null]}}')
_LISTS = ('["a"]', '["a", "b\\n\\"c\\""]', '["\\\\n", "\\t"]', '["a", 1]', '["a", null]', '[["a"]]')
_VALUES = (
    *_NUMBERS.split(),
    *_REFUSED.split(" "),
    *_TEXTS,
    *_NESTED,
    *_LISTS,
    "true",
    "false",
    "null",
)
_KEYS = (*FIELDS, "other", "Answer", "answer ")
_BROKEN = ("", "   ", "\r", "5", "null", "[1]", '"x"', "{", '{"answer": "a"', '{"answer": "a"} x')


@st.composite
def draw_lines(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(_BROKEN))
    pairs = draw(st.lists(st.tuples(st.sampled_from(_KEYS), st.sampled_from(_VALUES)), max_size=4))
    gap = draw(st.sampled_from(["", " ", "\t"]))
    fields = ",".join(f'"{key}"{gap}:{gap}{value}' for key, value in pairs)
    return f"{{{fields}}}"
