"""The native library counts words and steps as Polars does, or leaves a text to it.

Where the package has no library, as in a checkout without Rust, these tests are skipped.
"""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.metrics.families.answers import PYTHON_SPACE
from calipers.metrics.families.reasoning import count_steps_in_python
from calipers.metrics.text_counts import count_each, count_natively, count_words_in_python
from tests.examples import examples

pytestmark = pytest.mark.skipif(
    count_natively("count_words", pl.Series(["1"])) is None,
    reason="the package was built without Rust",
)

PIECES = ("1.", "23.", "-", "*", "a", "é", "“", "…", "你", "٣.", "²", "𝟙.", "\r\n", "0", ".", "🙂")
SPACES = tuple(PYTHON_SPACE)
texts = st.lists(
    st.sampled_from((*PIECES, *SPACES, *"\n" * 9, *" " * 9)) | st.text(max_size=3), max_size=90
).map("".join)


@examples(200)
@given(st.lists(texts | st.none(), max_size=4))
def test_words_are_those_of_python(several: list[str | None]) -> None:
    column = pl.Series(several, dtype=pl.String)
    expected = [None if text is None else len(text.split()) for text in several]
    assert count_each("count_words", column, count_words_in_python).to_list() == expected
    assert count_words_in_python(column).to_list() == expected


@examples(200)
@given(st.lists(texts | st.none(), max_size=4))
def test_steps_are_those_of_polars(several: list[str | None]) -> None:
    column = pl.Series(several, dtype=pl.String)
    expected = count_steps_in_python(column).to_list()
    assert count_each("count_steps", column, count_steps_in_python).to_list() == expected


@pytest.mark.long
def test_every_character() -> None:
    """Around each, words begin and end, and a step may have it for its digit or its space."""
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    column = pl.Series([f"a{each}b\n{each}. c\n1{each}. d\n-{each}" for each in characters])
    words = count_each("count_words", column, lambda _: pytest.fail("none is left"))
    assert words.to_list() == [len(text.split()) for text in column]
    counted = count_natively("count_steps", column)
    assert counted is not None
    read = pl.Series(counted[:, 0] >= 0)
    assert pl.Series(counted[:, 0]).filter(read).equals(count_steps_in_python(column.filter(read)))
    assert read.head(0xD800).sum() > 0.9 * 0xD800


def test_long_texts_and_short_ones() -> None:
    column = pl.Series([" x" * count + end for count in range(600) for end in ("", " ", "\u2003y")])
    words = count_each("count_words", column, lambda _: pytest.fail("none is left"))
    assert words.to_list() == [len(text.split()) for text in column]
