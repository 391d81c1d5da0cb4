"""Arrays of records in `.json` files, against the same records as lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import calipers as cal
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.examples import examples
from tests.files import write_lines

ROWS: list[dict[str, Any]] = [
    {"id": "a", "answer": "1", "target": "1", "trace": {"tool_calls": [{"tool_name": "x"}]}},
    {"id": "b", "answer": "line\none\u2028", "target": "x", "tags": ["p", "q"]},
    {"id": "c", "answer": None, "target": "z"},
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("start", ["", "\ufeff", " \n\t"])
def test_an_array_is_the_lines_of_its_elements(
    tmp_path: Path, indent: int | None, start: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(start + json.dumps(ROWS, indent=indent) + "\n", encoding="utf-8")
    assert_frame_equal(cal.read(path), cal.read(write_lines(tmp_path / "a.jsonl", ROWS)))


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_every_engine_reads_an_array(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(ROWS, indent=2), encoding="utf-8")
    found = cal.score(path, metrics=["accuracy"], engine=engine).groups[0].metrics["accuracy"]
    assert (found.value, found.n, found.extras["unanswered"]) == (1 / 3, 3, 1)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@examples(60)
@given(rows=st.lists(st.dictionaries(st.sampled_from("uvw"), _values), min_size=1, max_size=5))
def test_any_array_reads_as_its_lines(rows: list[dict[str, Any]], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("arrays")
    path = folder / "a.json"
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    lines = write_lines(folder / "a.jsonl", rows)
    try:
        expected = cal.read(lines)
    except cal.DataError:
        with pytest.raises(cal.DataError):
            cal.read(path)
    else:
        assert_frame_equal(cal.read(path), expected)


def test_numbers_keep_their_spelling_and_arrays_may_be_packed(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b'[{"id": 1.50, "answer": 1e3},\n{"id": 2, "answer": 1000}]'))
    table = cal.read(path)
    assert table["id"].to_list() == ["1.50", "2"]
    assert table["answer"].to_list() == ["1e3", "1000"]


def test_a_packed_array_that_is_cut_short_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps(ROWS * 2000).encode())
    path = tmp_path / "a.json.gz"
    for kept in (12, len(whole) // 2, len(whole) - 4):
        path.write_bytes(whole[:kept])
        with pytest.raises(cal.DataError, match="damaged or cut short"):
            cal.score(path)


def test_a_bad_element_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        '[{"id": "a", "answer": "4"},\n 3, {"id": "b", "prob_correct": 2}]', encoding="utf-8"
    )
    with pytest.raises(cal.DataError, match=r"a\.json:2: a JSON value, not an object"):
        cal.score(path)
    assert cal.score(path, on_bad="skip").inputs[0].skipped == 2


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('[{"id": "a"}', 1),
        ('[{"id": "a"}\n{"id": "b"}]', 2),
        ('[{"id": "a"},\n{"id": ]', 2),
        ('[{"id": "a"}]\n{"id": "b"}', 2),
        ('[{"id": "a"},]', 1),
        ("[" + '{"a":' * 100_000, 1),
    ],
)
def test_a_broken_array_is_one_message_with_its_line(
    tmp_path: Path, content: str, line: int
) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(cal.DataError) as refused:
        cal.score(path)
    assert refused.value.message.startswith(f"{path}:{line}: not a JSON array: ")


def test_an_empty_array_has_no_records(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[]", encoding="utf-8")
    assert cal.score(path).exit_code == 3
