"""The native library reads JSON lines as Python does, or leaves them alone.

`test_json_readers.py` draws lines of every kind of value; here stand what is read, what is left, and
damaged bytes. Where the package has no library, as in a checkout without Rust, all is skipped.
"""

from __future__ import annotations

import json
import math
from random import Random
from time import monotonic
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.records.batch import Wanted
from calipers.records.readers.line_chunk import Content, list_keys, read_natively
from calipers.records.rows import read_numbered_lines
from calipers.support.native import open_library
from tests.examples import examples

pytestmark = pytest.mark.skipif(open_library() is None, reason="the package was built without Rust")

KEYS = {
    "text": Content.TEXT,
    "number": Content.NUMBER,
    "flag": Content.BOOLEAN,
    "none": Content.NULL,
    "other": Content.NOTHING,
    "é": Content.TEXT,
}
LINE = (
    '{"text": "a \\u00e9 \\ud83d\\ude00 é\\n", "number": 12.5, "flag": true, "more": [{"a": 1}]}\n'
)


def read(text: str | bytes) -> list[dict[str, Any]] | None:
    """The rows of a text, with a null for each key that has none; None if it is left alone."""
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    frame = read_natively(data, KEYS)
    return None if frame is None else [dict.fromkeys(KEYS) | row for row in frame.to_dicts()]


def read_exactly(data: bytes) -> list[Any]:
    """The fields of each row by the reader in Python, which keeps numbers as they are written."""
    return [row for _, _, row in read_numbered_lines(data, 1)]


@examples(200)
@given(
    texts=st.lists(st.text(max_size=40) | st.none(), min_size=1, max_size=5),
    ascii_only=st.booleans(),
)
def test_texts_are_those_of_python(texts: list[str | None], *, ascii_only: bool) -> None:
    rows = [{"text": text, "x": text, "flag": True} for text in texts]
    found = read("".join(f"{json.dumps(row, ensure_ascii=ascii_only)}\n" for row in rows))
    assert found is not None
    assert [row["text"] for row in found] == texts


@examples(300)
@given(
    st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(0, 1)
    | st.integers(-(10**25), 10**25)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9))
)
def test_numbers_are_those_of_python(number: Any) -> None:
    written = str(number)
    found = read(f'{{"number": {written}, "text": {written}}}')
    if float(number) == 0 and written.startswith("-"):
        assert found is None  # Polars keeps no zero with a sign
    elif math.isfinite(float(written)):
        assert found is not None
        assert found[0]["number"] == float(written)
        assert found[0]["text"] == written


@pytest.mark.parametrize(
    "text",
    [
        '{"text":"a"}',
        '\n{"text":"a"}\r\n\n \t{ "text" : "a" , "x":{} } \r\n\n',
        '{"text":"a","others":"x"}',
        '{"x":[[],{},[{"a":[1,-2.5e+3,"\\ud83d",null]}],""],"y":{"a":{"b":false}},"text":"a"}',
        '{"x":1,"x":2,"text":"a","none":null,"number":null}',
        f'{{"x":{"[" * 63}{"]" * 63},"text":"a"}}',
        '{"text":"a","":"é"}',
    ],
)
def test_usual_lines_are_read(text: str) -> None:
    assert read(text) == [dict.fromkeys(KEYS) | {"text": "a"}] * text.count("text")


def test_values_stand_in_their_rows() -> None:
    rows: list[dict[str, Any]] = [{"flag": number % 3 == 0} for number in range(40)]
    rows[7] = {"text": "a long text that no view holds"}
    rows[20] = {}
    rows[31] = {"number": 2.0, "text": "short"}
    found = read("\n".join(map(json.dumps, rows)))
    assert found == [dict.fromkeys(KEYS) | row for row in rows]


def test_numbers_and_booleans_in_texts_are_as_written() -> None:
    for written in ("1e3", "18.50", "-0", "true", "123456789012345678901234567890"):
        found = read(f'{{"text": {written}}}')
        assert found is not None
        assert found[0]["text"] == written


@pytest.mark.parametrize(
    "value",
    [
        *('{"text":{}}', '{"text":["a"]}', '{"number":"1"}', '{"number":true}', '{"flag":1}'),
        *('{"flag":"true"}', '{"none":"a"}', '{"none":[]}', '{"other":null}', '{"text":NaN}'),
        *('{"number":NaN}', '{"number":1e400}', '{"number":-0}', '{"number":01}', '{"number":1.}'),
        *('{"number":.5}', '{"number":+1}', '{"number":1e}', '{"number":-}', '{"number":}'),
        *(
            '{"text":"\\ud83d"}',
            '{"text":"\\ude00"}',
            '{"text":"\\ud83d\\u0041"}',
            '{"text":"\\q"}',
        ),
        *('{"text":"\\u12"}', '{"text":"\\u00g0"}', '{"text":"a\tb"}', '{"text":"\x00"}'),
        *('{"text":"a","text":"b"}', '{"text":null,"text":"b"}', '{"te\\u0078t":"a"}'),
        *('{"text":"a"', '{"text":"a', '{"text":', '{"text"', "{", "}", "[]", "1", '"a"', "null"),
        *('{"text":"a"}}', '{"text":"a"} x', '{"text":"a"}{"text":"b"}', '{"text":"a",}', "{,}"),
        *('{"text" "a"}', "{'text':'a'}", '{text:"a"}', '{"x":[1,]}', '{"x":{"a"}}', '{"x":[}]}'),
        *('{"x":{"a":1]}', '{"x":tru}', '{"x":"\\ux"}', '{"x":\n1}', '\ufeff{"text":"a"}'),
        f'{{"x":{"[" * 65}{"]" * 65}}}',
        '{"x":' + "[" * 100_000,
    ],
)
def test_what_is_unusual_is_left_alone(value: str) -> None:
    assert read(value) is None
    assert read(f"{LINE}{value}\n{LINE}") is None


@pytest.mark.parametrize(
    "data",
    [b'{"text":"\xff"}', b'{"x":"\xe2\x82"}', b'{"\xc3":1}', b'{"text":"\xc3\\n"}', b'{"x":\xff}'],
)
def test_bytes_that_are_no_text_are_left_alone(data: bytes) -> None:
    assert read(data) is None
    assert read(LINE.encode() + data) is None


@examples(400)
@given(st.integers(0, len(LINE.encode()) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_damaged_lines_are_read_as_by_python_or_left(at: int, put: bytes, cut: int) -> None:
    line = LINE.encode()
    check_alike(line + line[:at] + put + line[at + cut :] + line)


SEEDS = (
    LINE.encode(),
    b'{"text":null,"number":-0.5,"flag":false,"none":null,"\xc3\xa9":"\\ud83d\\ude00"}\n',
    b'{"number": 1e308, "text": "\\\\\\"", "x": {"text": [1, {"number": 2}]}, "flag": null}\n',
    b' { "text" : 17 , "number" : 0.1e-7 , "flag" : true , "y" : [ ] , "z" : { } } \r\n',
    b'{"text": "\xe2\x80\xa8\xc2\x85", "text": "twice", "number": 12345678901234567890}\n',
)
PIECES = (
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\n", b"\r", b"\t", b"\0"),
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80\xa8", b"\xef\xbb\xbf"),
    *(b"null", b"true", b"NaN", b"Infinity", b"-", b"+", b".", b"e", b"E5", b"00", b"1e999", b"-0"),
    *(b'"text"', b'"number": 1', b"\\u0000", b"\\ud800", b"\\udc00", b"\\u00e", b"\\x41", b"\\/"),
)


@pytest.mark.long
def test_a_million_mutated_lines_are_read_as_by_python_or_left() -> None:
    luck, taken, count, began = Random(1), 0, 0, monotonic()
    while count < 1_000_000 and monotonic() - began < 50:  # fewer on a busy machine
        count += 1
        line = bytearray(luck.choice(SEEDS))
        for _ in range(luck.choice((1, 1, 1, 2, 4))):
            at, cut = luck.randrange(len(line) + 1), luck.choice((0, 0, 1, 1, 2, 8))
            piece = luck.choice(PIECES) if luck.random() < 0.7 else luck.randbytes(1)
            line[at : at + cut] = piece
        taken += check_alike(bytes(line))
    assert taken > count / 20


def check_alike(data: bytes) -> bool:
    """Compare what the library reads with what Python does; False where it leaves the lines."""
    found = read(data)
    if found is None:
        return False
    expected = read_exactly(data)
    assert len(found) == len(expected)
    for row, exact in zip(found, expected, strict=True):
        assert isinstance(exact, dict)
        text = exact.get("text")
        written = str(text).lower() if isinstance(text, bool) else str(text)
        assert row["text"] == (None if text is None else written)
        number = exact.get("number")
        assert row["number"] == (None if number is None else float(number))
        assert row["flag"] == exact.get("flag")
    return True


def test_texts_outlive_the_lines_they_come_from() -> None:
    data = LINE.encode() * 5_000
    frame = read_natively(data, KEYS)
    assert frame is not None
    del data
    kept = frame["text"].filter(pl.arange(0, 5_000, eager=True) % 7 == 0)
    del frame
    assert kept.unique().to_list() == ["a é 😀 é\n"]


def test_keys_that_give_a_field_in_another_way_must_not_be_there() -> None:
    wanted = Wanted(("answer", "prompt_tokens", "cost_usd"), {"cost_usd": "price.usd"})
    assert list_keys(wanted, {}) == {
        "answer": Content.TEXT,
        "prompt_tokens": Content.NUMBER,
        "price.usd": Content.NUMBER,
        "input_tokens": Content.NOTHING,
        "price": Content.NOTHING,
    }


def test_a_key_of_two_fields_is_left_alone() -> None:
    keys = list_keys(Wanted(("answer", "cost_usd"), {"answer": "x", "cost_usd": "x"}), {})
    assert keys == {"x": Content.NOTHING}


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIPERS_NATIVE", "0")
    assert read(LINE) is None
