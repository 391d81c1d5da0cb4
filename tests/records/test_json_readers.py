"""The readers of JSON lines agree, or the fast ones leave it to the exact one.

All of it holds with the native library, where the package has one, and without.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import calipers as cal
from calipers.records.batch import Wanted
from calipers.records.readers.bytestream import Block
from calipers.records.readers.line_chunk import JsonLinesChunk
from tests.examples import examples
from tests.records.lines_at_hand import _VALUES, FIELDS, draw_lines, read_fast

SCALARS: dict[str, pl.DataType] = {"run": pl.Float64(), "tag": pl.String()}


@pytest.fixture(params=["0", "1"], scope="module", autouse=True, ids=["Polars", "native"])
def reader(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALIPERS_NATIVE", request.param)
        yield


def chunk(data: bytes, strings: tuple[str, ...] = (), **field_map: str) -> JsonLinesChunk:
    wanted = Wanted(FIELDS, field_map)
    return JsonLinesChunk(Block(data, 0), "data", wanted, SCALARS, frozenset(strings))


def columns(frame: pl.DataFrame) -> dict[str, list[Any]]:
    """The values; in a long text, half a surrogate pair may be NUL or a question mark."""
    return frame.with_columns(pl.col("cot").str.replace_all("\0", "?", literal=True)).to_dict(
        as_series=False
    )


@given(st.lists(draw_lines(), max_size=3), st.sampled_from(["\n", "\r\n"]), st.integers(0, 1))
@examples(250, deadline=None)
def test_the_fast_reader_agrees_or_leaves_it_to_the_exact_one(
    rows: list[str], end: str, ends: int
) -> None:
    data = (end.join(rows) + end * ends).encode()
    for strings in ((), ("answer", "target")):
        block = chunk(data, strings)
        exact = block.exact()
        quick = read_fast(block)
        if quick is not None:
            assert exact.bad == ()
            assert columns(quick) == columns(exact.frame)


@pytest.mark.parametrize("field", FIELDS)
def test_the_readers_agree_on_every_kind_of_value(field: str) -> None:
    for value in _VALUES:
        for strings in ((), ("answer", "target")):  # or fields that held only JSON strings so far
            block = chunk(f'{{"{field}": {value}}}\n'.encode(), strings)
            quick = read_fast(block)
            if quick is not None:
                assert block.exact().bad == (), value
                assert columns(quick) == columns(block.exact().frame), value


def test_the_fast_reader_reads_what_is_ordinary() -> None:
    row = {"id": "1", "answer": "18.50", "cot": "[1] é \u2028", "latency_ms": 1.5, "run": 2}
    data = f"{json.dumps(row)}\n\n{json.dumps({'correct': True})}\r\n".encode()
    for strings in ((), ("answer", "target")):
        quick = read_fast(chunk(data, strings))
        assert quick is not None
        assert quick["answer"].to_list() == ["18.50", None]
        assert quick["cot"].to_list() == ["[1] é \u2028", None]
        assert quick["run"].to_list() == [2.0, None]
        assert quick["correct"].to_list() == [None, True]


@pytest.mark.parametrize("key", ["output", "réponse", 'a"b', "a.b", "answer"])
def test_a_renamed_field_keeps_its_spelling(key: str) -> None:
    for name in {json.dumps(key), json.dumps(key, ensure_ascii=False)}:
        block = chunk(f"{{{name}: 1.50}}\n".encode(), answer=key)
        quick = read_fast(block)
        assert quick is None or quick["answer"].to_list() == ["1.50"]
        assert block.exact().frame["answer"].to_list() == ["1.50"]


@given(st.lists(st.dictionaries(st.sampled_from("ab"), st.text(max_size=4)), max_size=3))
@example([{"a": "C:\\new"}, {"b": "tab\t"}])
@examples(150, deadline=None)
def test_texts_in_nested_fields_come_through(judgments: list[dict[str, str]]) -> None:
    """Polars leaves backslashes and control characters in them as they are, which is not JSON."""
    row = {"judgments": judgments, "cot": "\\alpha\t"}
    block = JsonLinesChunk(
        Block(json.dumps(row).encode(), 0), "data", Wanted(("judgments", "cot")), {}
    )
    quick = read_fast(block)
    found = block.exact().frame if quick is None else quick
    expected = json.dumps(judgments).encode("utf-8", "replace").decode()
    assert json.loads(found["judgments"][0]) == json.loads(expected)


@pytest.mark.parametrize("key", ['say "no"', "two\nlines", "a\r", "a/b", "C:\\new", "naïve"])
def test_keys_in_nested_fields_come_through(key: str) -> None:
    """Polars writes an object as a text without the escapes of its keys."""
    for written in (json.dumps(key), json.dumps(key).replace("/", "\\/")):
        data = f'{{"judgments": [{{{written}: 1}}]}}\n'.encode()
        block = JsonLinesChunk(Block(data, 0), "data", Wanted(("judgments",)), {})
        quick = read_fast(block)
        found = block.exact().frame if quick is None else quick
        assert json.loads(found["judgments"][0]) == [{key: 1}]


def test_nested_fields_with_ordinary_texts_take_the_fast_way() -> None:
    row = {"judgments": [{"reason": 'two\nlines, "quoted"'}], "cot": "\\alpha\t"}
    data = json.dumps(row).encode()
    block = JsonLinesChunk(Block(data, 0), "data", Wanted(("judgments",)), {})
    assert read_fast(block) is None  # the backslash might be in the nested field
    plain = json.dumps(row | {"cot": "alpha"}).encode()
    assert (
        read_fast(JsonLinesChunk(Block(plain, 0), "data", Wanted(("judgments",)), {})) is not None
    )


@pytest.mark.parametrize("error", ['"x"', "1.0", "0", "true", '{"code": 429}', "[]"])
@pytest.mark.parametrize("other", ["", '{"answer": NaN}\n'])  # the second takes the exact way
def test_both_readers_know_a_failed_call(error: str, other: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"answer": "1", "error": {error}}}\n{other}')
    assert sum(group.errors for group in cal.score(path).groups) == 1


@pytest.mark.parametrize("error", ['""', "false", "null", "NaN"])
def test_both_readers_know_a_call_that_did_not_fail(error: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"answer": "1", "error": {error}}}\n')
    assert cal.score(path).groups[0].errors == 0
