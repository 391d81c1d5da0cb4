"""Similarities of many pairs at once equal P's own code, pair by pair, on any text."""

from __future__ import annotations

import re
import sys
import time

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.feature_extraction import text as sklearn_text

from calipers.metrics.similarity import words as slicing
from calipers.metrics.similarity.words import (
    ENGLISH_STOP_WORDS,
    Pieces,
    cosine,
    jaccard,
    match_words,
    split_tokens,
    split_words,
)
from tests.examples import examples, first_of
from tests.metrics.texts import peer
from tests.shared_data import FOLDER, needs_shared_data

_fragments = st.sampled_from(
    [
        *("the", "The", "of", "system", "paper", "Paper", "model", "a", "I", "x", "of the", "is a"),
        *(
            " ",
            "  ",
            "\n",
            "\t",
            "\u2028",
            "\x1c",
            "\x1f",
            "\x85",
            "\xa0",
            "\u3000",
            "\u200b",
            "\ufeff",
        ),
        *(
            ".",
            ",",
            "-",
            "_",
            "__",
            "'",
            "’",
            "—",
            "don't",
            "state-of-the-art",
            "a_b",
            "3.14",
            "x²",
        ),
        *("Straße", "STRASSE", "İstanbul", "ΟΔΟΣ", "ΟΔΟΣ.", "ΑΣ", "Σ", "ς", "K", "Å", "ﬁn", "ǅ"),
        *(
            "e\u0301te",
            "été",
            "हिन्दी",
            "ไทย",
            "数学",
            "数",
            "日本 語",
            "한국어",
            "٣٤",
            "½",
            "Ⅷ",
            "①②",
        ),
        *(
            "🙂",
            "🙂🙂",
            "👩\u200d🔬",
            "n\u0303a",
            "a\u0345b",
            "\u1c89x",
            "\ua7cbx",
            "𝒳𝒴",
            "ⓐⓑ",
            "\0",
        ),
    ]
)
_letters = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_texts = st.lists(st.one_of(_fragments, _fragments, _letters), max_size=12).map("".join)
_spaced = st.lists(_fragments, max_size=12).map(" ".join)
_any_text = st.one_of(_texts, _spaced)
_pairs = st.lists(st.tuples(_any_text, _any_text), min_size=1, max_size=6)


def _columns(pairs: list[tuple[str, str]]) -> tuple[pl.Series, pl.Series]:
    first, second = zip(*pairs, strict=True)
    return pl.Series(first, dtype=pl.String), pl.Series(second, dtype=pl.String)


@given(pairs=_pairs)
@example(pairs=[("", ""), ("the", "the of"), ("The of", "of the"), ("", "paper"), ("the", "")])
@example(pairs=[("red wine", "red wine, white wine"), ("wine red", "red wine")])
@examples(150, deadline=None)
def test_cosine_is_that_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    expected = [peer.cosine_of_definitions(*pair) for pair in pairs]
    assert cosine(*_columns(pairs)).to_list() == pytest.approx(expected, abs=1e-9)


@given(pairs=_pairs)
@examples(150, deadline=None)
def test_jaccard_is_that_of_the_document(pairs: list[tuple[str, str]]) -> None:
    expected = [peer.compute_jaccard_similarity(*pair) for pair in pairs]
    assert jaccard(*_columns(pairs)).to_list() == expected


@given(pairs=_pairs)
@examples(200, deadline=None)
def test_matched_words(pairs: list[tuple[str, str]]) -> None:
    def f1(a: list[str], b: list[str]) -> float:
        if not a and not b:
            return 1.0
        of_a, of_b = sum(word in b for word in a), sum(word in a for word in b)
        if not of_a:
            return 0.0
        precision, recall = of_a / len(a), of_b / len(b)
        return 2 * precision * recall / (precision + recall)

    expected = [f1(a.lower().split(), b.lower().split()) for a, b in pairs]
    assert match_words(*_columns(pairs)).to_list() == pytest.approx(expected, abs=1e-12)


@given(pairs=_pairs, at_once=st.sampled_from([1, 100, 300]))
@examples(100, deadline=None)
def test_slices_change_no_bit(pairs: list[tuple[str, str]], at_once: int) -> None:
    columns = _columns(pairs)
    whole = [similarity(*columns).to_list() for similarity in (cosine, jaccard, match_words)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slicing, "_AT_ONCE", at_once)
        sliced = [similarity(*columns).to_list() for similarity in (cosine, jaccard, match_words)]
    assert sliced == whole


@given(text=_any_text)
@examples(100, deadline=None)
def test_a_text_is_like_itself(text: str) -> None:
    pair = pl.Series([text]), pl.Series([text])
    assert [similarity(*pair)[0] for similarity in (cosine, jaccard, match_words)] == [1, 1, 1]


def _every_character(frame: str) -> list[str]:
    """Texts that hold all of Unicode but private and empty planes, each in its place in the frame."""
    characters = [
        chr(p) for p in (*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE1000))
    ]
    starts = range(0, len(characters), 4096)
    pieces = (
        [frame.replace("{}", c) for c in characters[start : start + 4096]] for start in starts
    )
    return [" | ".join(each) for each in pieces]


def _one_to_one(found: Pieces, expected: list[list[str]]) -> bool:
    """Whether the pieces are these: each number stands for one text, each text for one number."""
    flat = [(text, piece) for text, pieces in enumerate(expected) for piece in pieces]
    assert [text for text, _ in flat] == found.texts.tolist()
    both = set(zip((piece for _, piece in flat), found.numbers.tolist(), strict=True))
    return len(both) == len({piece for piece, _ in both}) == len({number for _, number in both})


@pytest.mark.parametrize(
    ("frame", "step"), first_of([("a{}b {}{}", 8), ("a{}b {}{}", 1), ("A{} Σ{}x", 1)])
)
def test_every_character_cuts_as_in_python(frame: str, step: int) -> None:
    """Whatever Unicode the running Python knows, and whatever Polars does."""
    texts = _every_character(frame)[::step]
    runs = [re.findall(r"(?u)\b\w\w+\b", text.lower()) for text in texts]
    assert _one_to_one(split_tokens(pl.Series(texts)), runs)
    assert _one_to_one(split_words(pl.Series(texts)), [text.lower().split() for text in texts])


def test_there_is_no_letter_where_none_is_looked_for() -> None:
    assert re.search(r"\w", "".join(map(chr, range(0x40000, sys.maxunicode + 1)))) is None


def test_stop_words_are_those_of_scikit_learn() -> None:
    assert sklearn_text.ENGLISH_STOP_WORDS == ENGLISH_STOP_WORDS


@pytest.mark.parametrize("similarity", [cosine, jaccard, match_words])
def test_nulls_and_nothing(similarity: object) -> None:
    assert callable(similarity)
    first = pl.Series("a", [None, "x y", None, "x y"], dtype=pl.String)
    second = pl.Series("b", ["x y", None, None, "x y"], dtype=pl.String)
    assert similarity(first, second).to_list() == [None, None, None, 1.0]
    assert similarity(first.clear(), second.clear()).to_list() == []
    empty = pl.Series(["", "", "the"]), pl.Series(["", "paper", ""])
    assert similarity(*empty).to_list() == [1.0, 0.0, 0.0]


def test_texts_of_a_megabyte_take_seconds_at_most() -> None:
    long = " ".join(f"word{number} of ß{number % 997}" for number in range(60_000))
    assert len(long) > 1_000_000
    started = time.process_time()
    pair = pl.Series([long, long]), pl.Series([long, long[: len(long) // 2]])
    equal, half = cosine(*pair).to_list()
    assert equal == 1
    assert half == pytest.approx(peer.compute_cosine_similarity(long, pair[1][1]), abs=1e-9)
    assert time.process_time() - started < 20
    assert cosine(pl.Series(["a" * 1_000_000]), pl.Series(["a" * 1_000_000]))[0] == 1
    assert jaccard(pl.Series([" " * 1_000_000]), pl.Series([""]))[0] == 1


@needs_shared_data
def test_reviews_by_people() -> None:
    """834 pairs of reviews of the same paper, of 300 words or more each."""
    rows = pl.read_ndjson(FOLDER / "reviews/peerread_review_pairs.jsonl")
    first, second = rows["text1"], rows["text2"]
    assert jaccard(first, second).to_list() == rows["jaccard_words_lower_split"].to_list()
    some = rows.gather_every(17)
    expected = [
        peer.compute_cosine_similarity(*pair)
        for pair in zip(some["text1"], some["text2"], strict=True)
    ]
    assert cosine(first, second).gather_every(17).to_list() == pytest.approx(expected, abs=1e-9)
