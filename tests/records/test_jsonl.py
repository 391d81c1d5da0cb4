"""JSON lines: every spelling kept, every bad line named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.records.batch import Wanted
from calipers.records.readers.bytestream import Block
from calipers.records.readers.line_chunk import JsonLinesChunk
from tests.examples import examples
from tests.records.lines_at_hand import read_fast

_parts = st.text(alphabet=[*'ab"/\\\n\r\t\b\f\0\x1f\x7fé🙂:', "\u2028"], max_size=4)


_judgments = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | _parts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_parts, inner, max_size=3),
    max_leaves=5,
)


@given(value=st.lists(_judgments, max_size=3), ascii_only=st.booleans())
@examples(300, deadline=None)
def test_lists_and_objects_stay_what_they_are(value: list[Any], *, ascii_only: bool) -> None:
    data = json.dumps({"judgments": value}, ensure_ascii=ascii_only).encode()
    wanted = Wanted(("judgments",), as_is=("judgments",))
    block = JsonLinesChunk(Block(data, 0), "data", wanted, {})
    for frame in (read_fast(block), block.exact().frame):
        assert frame is None or json.loads(frame["judgments"][0]) == value


def test_a_backslash_in_a_judgment(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = {"judgments": [{"judge": "x", "passed": True, "reason": "see C:\\data\tand \\d+"}]}
    path.write_text(f"{json.dumps(row)}\n", encoding="utf-8")
    (group,) = cal.score(path, metrics=["pass_rate"]).groups
    assert group.metrics["pass_rate"].value == 1.0


def texts(path: Path, field: str = "answer") -> list[Any]:
    """The texts of a field as they come out of a whole run: rows are grouped by them."""
    return [group.by[field] for group in cal.score(path, by=field, metrics=["sce"]).groups]


@pytest.mark.parametrize(
    "spelling", ["1e3", "18.50", "1E5", "-0", "0.10", "123456789012345678901234567890", "7"]
)
def test_a_number_in_a_text_field_keeps_its_json_spelling(spelling: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"answer": {spelling}, "target": "x"}}\n')
    assert texts(path) == [spelling]


def test_booleans_in_a_text_field_are_their_json_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"answer": true}\n{"answer": false}\n')
    assert texts(path) == ["false", "true"]


def test_nan_is_null_and_infinity_a_data_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"latency_ms": NaN, "answer": NaN}\n{"latency_ms": 3, "answer": "a"}\n')
    metrics = cal.score(path).groups[0].metrics
    assert (metrics["latency_mean_ms"].value, metrics["latency_mean_ms"].missing) == (3.0, 1)
    assert metrics["sce"].missing == 1
    for field, value in [("latency_ms", "Infinity"), ("answer", "-Infinity")]:
        path.write_text(f'{{"{field}": 1}}\n{{"{field}": {value}}}\n')
        with pytest.raises(cal.DataError) as refused:
            cal.score(path)
        assert refused.value.message == f"{path}:2: {field}: {value} is not a finite number"


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    odd = "a\u2028b\u2029c\x85d\x0be"
    path = tmp_path / "a.jsonl"
    for escaped in (True, False):
        line = json.dumps({"answer": odd}, ensure_ascii=escaped)
        path.write_text(f"{line}\n", encoding="utf-8", newline="")
        assert texts(path) == [odd]


@pytest.mark.parametrize(
    "content",
    [
        b'{"id": "1"}\n{"id": "2"}',
        b'{"id": "1"}\r\n{"id": "2"}\r\n',
        b'\n\n{"id": "1"}\n \t \n\r\n{"id": "2"}\n\n',
        b'\xef\xbb\xbf{"id": "1"}\n{"id": "2"}\n',
        b' {"id": "1"} \n\t{"id": "2"}\n',
    ],
    ids=["no final line feed", "crlf", "blank lines", "byte order mark", "white space"],
)
def test_what_stands_around_records_does_not_matter(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    assert texts(path, "id") == ["1", "2"]


def test_of_a_key_written_twice_the_first_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"answer": "a", "answer": "b"}\n')
    assert texts(path) == ["a"]
    path.write_text('{"answer": "a", "answer": "b"}\n{"answer": NaN, "answer": "b"}\n')
    assert texts(path) == ["a", None]


def test_the_order_of_nested_keys_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"trace": {"b": 1.50, "a": [1e3]}}\n')
    assert cal.read(path)["trace"].to_list() == ['{"b": 1.50, "a": [1e3]}']


def test_half_a_surrogate_pair_is_a_question_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"answer": "a\\ud83d"}\n')
    assert texts(path) == ["a?"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"answer": "a"', "not JSON: Expecting ',' delimiter at column 15"),
        (b'{"answer": "a', "not JSON: Unterminated string starting at column 12"),
        (b"{'answer': 'a'}", "not JSON: Expecting property name enclosed in double quotes"),
        (b'{"answer": "a"} {"answer": "b"}', "not JSON: Extra data at column 17"),
        (b"[INFO] started", "not JSON: "),
        (b"5", "a JSON value, not an object with fields"),
        (b"null", "a JSON value, not an object with fields"),
        (b'["answer"]', "a JSON value, not an object with fields"),
        (b'{"answer": "\xff"}', "invalid UTF-8 at byte 13 of the line"),
        (b'{"other": "\xc3"}', "invalid UTF-8 at byte 12 of the line"),
        (b'{"answer": ["a", 1.50]}', 'answer: ["a", 1.50] is a list, not a text'),
        (b'{"answer": {"a": 1}}', 'answer: {"a": 1} is an object, not a text'),
        (b'{"prob_correct": 1.50}', "prob_correct: 1.50 is outside [0, 1]"),
        (b'{"prob_correct": "0.5"}', 'prob_correct: "0.5" is not a number'),
        (b'{"latency_ms": -3}', "latency_ms: -3 is negative"),
        (b'{"correct": "yes"}', 'correct: "yes" is not true or false'),
        (b'{"x": ' + b"[" * 100_000 + b"}", "not JSON: nested too deep"),
        (b'{"answer": ' + b"[" * 900 + b"]" * 900 + b"}", "answer: "),
    ],
)
def test_a_bad_line_is_named_and_can_be_left_out(line: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = b'{"answer": "1", "target": "1", "latency_ms": 2, "correct": true, "prob_correct": 1}'
    path.write_bytes(b"\n".join([good, b"", line, good, b""]))
    with pytest.raises(cal.DataError) as refused:
        cal.score(path)
    assert refused.value.message.startswith(f"{path}:3: {problem}")
    assert "--on-bad skip" in refused.value.fix

    score = cal.score(path, on_bad="skip", bad_rows=tmp_path / "bad.jsonl")
    assert score.inputs[0].rows == 2
    assert score.inputs[0].skipped == 1
    assert score.notices[-1] == "1 bad row was left out"
    [bad] = [json.loads(each) for each in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert (bad["source"], bad["row"]) == (str(path), 3)
    assert bad["problem"].startswith(problem)
    assert bad["content"] == line.decode(errors="replace")


def test_an_array_in_a_file_of_lines_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for content in ('[{"answer": "a"}]', '[\n {"answer": "a"}\n]', "\ufeff\n[\n"):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(cal.DataError, match="a JSON array, not JSON lines") as refused:
            cal.score(path)
        assert "jq -c" in refused.value.fix
