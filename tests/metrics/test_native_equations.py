"""The native library counts equations as the reader in Python does, or leaves a text to it.

Where the package has no library, as in a checkout without Rust, these tests are skipped.
"""

from __future__ import annotations

import json
from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.metrics.equations import COUNTS, count_equations_of
from calipers.metrics.equations.parser import count_equations
from calipers.metrics.text_counts import Counts, count_natively
from calipers.support import native
from tests.examples import examples, first_of
from tests.metrics.equation_pieces import GRAMMAR, OF_OTHER_ALPHABETS
from tests.shared_data import FOLDER, needs_shared_data


def count_all(texts: pl.Series) -> Counts | None:
    return count_natively("count_equations", texts, 4)


pytestmark = pytest.mark.skipif(
    count_all(pl.Series(["1"])) is None, reason="the package was built without Rust"
)


def compare(texts: list[str]) -> int:
    """Compare both readers on texts; return how many the library leaves to the other."""
    counted = count_all(pl.Series(texts, dtype=pl.String))
    assert counted is not None
    found = dict(zip(texts, map(tuple, counted.tolist()), strict=True))
    read = {text: counts for text, counts in found.items() if counts[0] >= 0}
    assert read == {text: tuple(count_equations(text)) for text in read}
    assert all(counts == (-1,) * 4 for text, counts in found.items() if text not in read)
    return len(found) - len(read)


def read_chains() -> list[str]:
    paths = sorted((FOLDER / "reasoning").glob("*.jsonl"))
    lines = (line for path in paths for line in path.read_text("utf-8").split("\n") if line)
    return [cot for line in lines if (cot := json.loads(line).get("cot"))]


@needs_shared_data
def test_real_chains() -> None:
    chains = read_chains()
    left = compare(Random(1).sample(chains, 500))
    assert left <= 5


@pytest.mark.long
@needs_shared_data
def test_all_real_chains() -> None:
    chains = read_chains()
    left = compare(chains)
    assert left < len(chains) / 1000


def mutate(text: str, random: Random, others: list[str]) -> str:
    """Put pieces of the grammar, or of other texts, into a text; take some of it out."""
    for _ in range(random.choice((1, 1, 2, 3, 5, 8))):
        start = random.randrange(len(text) + 1)
        end = start + random.choice((0, 0, 1, 2, 4))
        other = random.choice(others)
        cut = random.randrange(len(other) + 1)
        piece = random.choice(
            ("", random.choice(GRAMMAR), random.choice(GRAMMAR), other[cut:][:12])
        )
        text = text[:start] + piece + text[end:]
    return text


@needs_shared_data
@pytest.mark.parametrize(("seed", "many"), first_of([(0, 1_000), (1, 50_000)]))
def test_mutated_lines_of_real_chains(seed: int, many: int) -> None:
    random = Random(seed)
    lines = [line for chain in read_chains() for line in chain.split("\n") if "=" in line]
    left = compare([mutate(random.choice(lines), random, lines) for _ in range(many)])
    assert left < many / 10


@examples(2000)
@given(st.lists(st.sampled_from(GRAMMAR), max_size=24).map("".join))
def test_texts_drawn_from_the_grammar(text: str) -> None:
    compare([text, f"{text} = 7", f"3 + 4 = {text}", f"<<{text}>>"])


@examples(300)
@given(st.text(), st.text(max_size=3))
def test_any_text(text: str, inside: str) -> None:
    text = text.encode("utf-8", "replace").decode()  # columns have no surrogates
    inside = inside.encode("utf-8", "replace").decode()
    compare([text, f"{text}\n3{inside}+ 4 = 7", f"a{inside}3 + 4 = 7{inside}", f"3 + 4 = 8 {text}"])


@examples(300)
@given(
    st.lists(
        st.integers(0, 10**20) | st.sampled_from(["0.0000001", "1,000,000", "9" * 18]), min_size=1
    ),
    st.sampled_from("+-*/"),
    st.integers(-(10**38), 10**38),
)
def test_numbers_that_outgrow_the_machine_are_left(
    numbers: list[int | str], operator: str, result: int
) -> None:
    compare([f"{f' {operator} '.join(map(str, numbers))} = {result}"])


@pytest.mark.parametrize(
    "text",
    [
        "9" * 19 + " + 1 = 2",
        " * ".join(["999999999999999999"] * 3) + " = 1",
        "٣ + 4 = 7",
        "1" * 5000 + " + 1 = 2",
    ],
)
def test_what_is_left(text: str) -> None:
    assert compare([text, "3 + 4 = 7"]) == 1
    assert count_equations_of(pl.Series([text])).to_list() == [count_equations(text)._asdict()]


@pytest.mark.parametrize(
    "piece",
    ["(", "((", "-", "- ", "<<", "<<1=", "\\frac{", "{", "*", "* ", "1 ", "1,", "1,000 ", "$1 000 ", "= ",
     "1 = ", "1 + ", "1 - 1 = ", "a", "a ", "a-", "_{", "\\text{", "\\", "1/2 of the ", "5 (a ", "x ", " ",
     "1 1/2a", ".", "\r", "1 - 2 - "],
)  # fmt: skip
def test_long_lines(piece: str) -> None:
    """A line of a hundred thousand characters is read like any other; a quadratic way would hang."""
    for text in (piece * 40, piece * 700):
        compare([f"{text}3 + 4 = 8", f"3 + 4 = 8{text}", f"3 + {text} = 8"])
    long = piece * (100_000 // len(piece))
    assert count_all(pl.Series([f"{long} 3 + 4 = 8", f"3 + 4 = 7 {long}"])) is not None


@pytest.mark.parametrize(
    "characters",
    first_of([OF_OTHER_ALPHABETS, *(range(start, start + 0x2000) for start in range(0, 0x110000, 0x2000))]),
)  # fmt: skip
def test_characters(characters: range | str) -> None:
    """Only characters that are the same in every version of Unicode are known to the library."""
    codes = (ord(each) if isinstance(each, str) else each for each in characters)
    for character in (chr(code) for code in codes if not 0xD800 <= code < 0xE000):
        compare(
            [
                f"{character}3 + 4 = 7",
                f"3{character}+ 4 = 8",
                f"3 + 4 = 7{character}",
                f"2 a{character}b * 3 = 6",
                f"5{character} * 2 = 10",
                f"3 {character} 4 = 12",
                f"1 1/2{character}5 + 1 = 3",
                f"{character}-3 + 4 = 1",
                f"\\text{{{character}a}} 3 + 4 = 9",
                f"8{character}*5* = 40",
            ]
        )


# --- Columns ---


def test_columns_of_any_layout() -> None:
    """Nulls, slices, several chunks, short and long texts, and no text at all."""
    long = "She has 16 - 3 = 13 eggs left."
    texts = pl.Series("cot", [None, "1+1=2", long, "", "٣ = 3 + 4", None, f"{long} 2 * 2 = 5"])
    series = [
        texts,
        texts[2:5],
        texts[:0],
        texts.append(pl.Series("cot", [long, None])),
        pl.Series("cot", [None, None], dtype=pl.String),
        pl.Series("cot", ["1+1=3"]),
    ]
    for each in series:
        expected = [None if text is None else count_equations(text)._asdict() for text in each]
        found = count_equations_of(each)
        assert found.name == "cot"
        assert found.dtype == COUNTS
        assert found.to_list() == expected


def test_many_texts_that_are_left() -> None:
    """More of them than the exact reader is given: they go through regular expressions."""
    texts = [f"{odd} says that {number} + 4 = 7 apples" for number in range(500) for odd in "٣é"]
    found = count_equations_of(pl.Series("cot", texts)).to_list()
    assert found == [count_equations(text)._asdict() for text in texts]


def test_other_columns_are_left_to_python() -> None:
    assert count_all(pl.Series([None, None])) is None
    assert count_all(pl.Series([1, 2])) is None


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIPERS_NATIVE", "0")
    assert count_all(pl.Series(["1 + 1 = 2"])) is None
    assert count_equations_of(pl.Series(["1 + 1 = 3"])).struct.field("wrong").to_list() == [1]


def test_a_library_of_other_rules_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_VERSION", 0)
    assert native._load_library.__wrapped__() is None
