"""JSON lines: two readers that agree, every spelling kept, every bad line named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

import calipers as cal
from calipers.records.bytestream import Block, read_blocks
from calipers.records.jsonl import JsonLines, JsonLinesChunk, read_rows
from calipers.records.sources import CHECK, UnusualRows, Wanted
from tests.examples import examples

FIELDS = (
    *("id", "answer", "target", "reference", "cot"),
    *("prob_correct", "latency_ms", "correct", "run", "tag"),
)
SCALARS: dict[str, pl.DataType] = {"run": pl.Float64(), "tag": pl.String()}


def chunk(data: bytes, strings: tuple[str, ...] = (), **field_map: str) -> JsonLinesChunk:
    wanted = Wanted(FIELDS, field_map)
    return JsonLinesChunk(Block(data, 0), "data", wanted, SCALARS, frozenset(strings))


def fast(block: JsonLinesChunk) -> pl.DataFrame | None:
    """What the fast reader gives, None where it leaves the block to the exact one."""
    try:
        frame = block.lazy().collect()
    except (pl.exceptions.PolarsError, UnusualRows):
        return None
    checks = [name for name in frame.columns if name.startswith(CHECK)]
    return frame.drop(checks) if block.is_trusted(frame.select(checks)) else None


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
    for frame in (fast(block), block.exact().frame):
        assert frame is None or json.loads(frame["judgments"][0]) == value


def test_a_backslash_in_a_judgment(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = {"judgments": [{"judge": "x", "passed": True, "reason": "see C:\\data\tand \\d+"}]}
    path.write_text(f"{json.dumps(row)}\n", encoding="utf-8")
    (group,) = cal.score(path, metrics=["pass_rate"]).groups
    assert group.metrics["pass_rate"].value == 1.0


def columns(frame: pl.DataFrame) -> dict[str, list[Any]]:
    """The values; in a long text, half a surrogate pair may be NUL or a question mark."""
    return frame.with_columns(pl.col("cot").str.replace_all("\0", "?", literal=True)).to_dict(
        as_series=False
    )


def texts(path: Path, field: str = "answer") -> list[Any]:
    """The texts of a field as they come out of a whole run: rows are grouped by them."""
    return [group.by[field] for group in cal.score(path, by=field, metrics=["sce"]).groups]


# --- the two readers ---

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
def lines(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(_BROKEN))
    pairs = draw(st.lists(st.tuples(st.sampled_from(_KEYS), st.sampled_from(_VALUES)), max_size=4))
    gap = draw(st.sampled_from(["", " ", "\t"]))
    fields = ",".join(f'"{key}"{gap}:{gap}{value}' for key, value in pairs)
    return f"{{{fields}}}"


@given(st.lists(lines(), max_size=3), st.sampled_from(["\n", "\r\n"]), st.integers(0, 1))
@examples(250, deadline=None)
def test_the_fast_reader_agrees_or_leaves_it_to_the_exact_one(
    rows: list[str], end: str, ends: int
) -> None:
    data = (end.join(rows) + end * ends).encode()
    for strings in ((), ("answer", "target")):
        block = chunk(data, strings)
        exact = block.exact()
        quick = fast(block)
        if quick is not None:
            assert exact.bad == ()
            assert columns(quick) == columns(exact.frame)


@pytest.mark.parametrize("field", FIELDS)
def test_the_readers_agree_on_every_kind_of_value(field: str) -> None:
    for value in _VALUES:
        block = chunk(f'{{"{field}": {value}}}\n'.encode())
        quick = fast(block)
        if quick is not None:
            assert block.exact().bad == (), value
            assert columns(quick) == columns(block.exact().frame), value


def test_the_fast_reader_reads_what_is_ordinary() -> None:
    row = {"id": "1", "answer": "18.50", "cot": "[1] é \u2028", "latency_ms": 1.5, "run": 2}
    data = f"{json.dumps(row)}\n\n{json.dumps({'correct': True})}\r\n".encode()
    for strings in ((), ("answer", "target")):
        quick = fast(chunk(data, strings))
        assert quick is not None
        assert quick["answer"].to_list() == ["18.50", None]
        assert quick["cot"].to_list() == ["[1] é \u2028", None]
        assert quick["run"].to_list() == [2.0, None]
        assert quick["correct"].to_list() == [None, True]


@pytest.mark.parametrize("key", ["output", "réponse", 'a"b', "a.b", "answer"])
def test_a_renamed_field_keeps_its_spelling(key: str) -> None:
    for name in {json.dumps(key), json.dumps(key, ensure_ascii=False)}:
        block = chunk(f"{{{name}: 1.50}}\n".encode(), answer=key)
        assert fast(block) is None
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
    quick = fast(block)
    found = block.exact().frame if quick is None else quick
    expected = json.dumps(judgments).encode("utf-8", "replace").decode()
    assert json.loads(found["judgments"][0]) == json.loads(expected)


def test_nested_fields_with_ordinary_texts_take_the_fast_way() -> None:
    row = {"judgments": [{"reason": 'two\nlines, "quoted"'}], "cot": "\\alpha\t"}
    data = json.dumps(row).encode()
    block = JsonLinesChunk(Block(data, 0), "data", Wanted(("judgments",)), {})
    assert fast(block) is None  # the backslash might be in the nested field
    plain = json.dumps(row | {"cot": "alpha"}).encode()
    assert fast(JsonLinesChunk(Block(plain, 0), "data", Wanted(("judgments",)), {})) is not None


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


# --- spelling and white space ---


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


# --- bad lines ---


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


def test_a_type_that_changes_after_the_first_rows_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"run": 1}\n' * 300 + '{"run": "x"}\n')
    with pytest.raises(cal.DataError) as refused:
        cal.score(path, by="run")
    assert (
        refused.value.message == f"{path}:301: run: 'x' is of another type than in the rows before"
    )


# --- blocks ---


@pytest.fixture
def varied() -> bytes:
    """Lines of very different lengths, the last without an end."""
    rows = [{"id": str(n), "answer": "é" * (n * 37 % 400)} for n in range(60)]
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()


def packed(data: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.compress(data)
    return zstandard.compress(data) if suffix == ".zst" else data


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("size", [1, 2, 7, 100, 399, 1000, 5000, 10**6])
def test_blocks_are_whole_lines_and_lose_nothing(
    suffix: str, size: int, varied: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(packed(varied, suffix))
    seen = b""
    for block, done in read_blocks(path, size=size):
        data = block.data
        assert data
        assert block.first == seen.count(b"\n")
        seen += data
        assert data.endswith(b"\n") or seen == varied
        assert 0 < done <= 1
    assert seen == varied


@pytest.mark.parametrize("size", [1, 50, 700])
def test_a_bad_line_has_its_number_in_the_file_however_it_is_cut(
    size: int, varied: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(varied.replace(b'"id": "41"', b'"id": ["41"]'))
    bad = [
        row
        for block, _ in read_blocks(path, size=size)
        for row in JsonLinesChunk(block, "a", Wanted(("id",)), {}).exact().bad
    ]
    assert [(row.row, row.problem) for row in bad] == [(42, 'id: ["41"] is a list, not a text')]


def test_lines_longer_than_what_is_looked_at_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    long = [{"id": str(n), "answer": str(n) * 200_000} for n in range(3)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in long))
    blocks = [block for block, _ in read_blocks(path, size=1000)]
    assert [json.loads(block.data) for block in blocks] == long


def test_rows_are_numbered_from_the_line_given() -> None:
    found = list(read_rows(b'{"a": 1}\n\n{"b": 2}\n', 10))
    assert [number for number, _, _ in found] == [10, 12]


# --- compressed ---

LINES = b"".join(b'{"id": "%d", "answer": "4", "target": "4"}\n' % n for n in range(3000))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl.gz", gzip.compress(LINES)),
        ("a.jsonl.gz", gzip.compress(LINES[:1000]) + gzip.compress(LINES[1000:])),
        ("a.jsonl.zst", zstandard.compress(LINES)),
        ("a.ndjson.zstd", zstandard.compress(LINES[:1000]) + zstandard.compress(LINES[1000:])),
        ("a.jsonl", gzip.compress(LINES)),
        ("a.jsonl.gz", LINES),
    ],
    ids=["gz", "gz in members", "zst", "zst in frames", "gz by another name", "not packed"],
)
def test_compressed_files_are_read_whole(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    score = cal.score(path)
    assert score.records == 3000
    assert score.groups[0].metrics["accuracy"].value == 1.0


def _flipped(data: bytes) -> bytes:
    """Wrong bits behind the header: a block of no known kind."""
    return data[:10] + bytes(byte ^ 0xFF for byte in data[10:14]) + data[14:]


@pytest.mark.parametrize("cut", [1, 4, 100])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_an_archive_that_was_cut_short_is_an_error(suffix: str, cut: int, tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(packed(LINES, suffix)[:-cut])
    with pytest.raises(cal.DataError, match="damaged or cut short") as refused:
        cal.score(path)
    assert refused.value.message.startswith(f"{path}: ")


def test_an_archive_cut_at_a_lines_end_is_an_error_too(tmp_path: Path) -> None:
    # Two frames' worth of whole lines, the second without its end: nothing in it looks wrong.
    compressor = zstandard.ZstdCompressor().compressobj()
    data = compressor.compress(LINES) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(data)
    with pytest.raises(cal.DataError, match="it ends inside a frame"):
        cal.score(path, on_bad="skip")


@pytest.mark.parametrize("damage", [_flipped, lambda data: data + b"garbage"])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_damaged_archive_is_an_error(suffix: str, damage: Any, tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(damage(packed(LINES, suffix)))
    with pytest.raises(cal.DataError, match="damaged or cut short"):
        cal.score(path)


@pytest.mark.parametrize(
    "data",
    [b"", b"\n \n", gzip.compress(b""), zstandard.compress(b"")],
    ids=["empty", "blank", "gz", "zst"],
)
def test_a_file_without_records_has_none(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    score = cal.score(path)
    assert (score.records, score.exit_code, score.inputs[0].rows) == (0, 3, 0)
    assert JsonLines(path).columns() == []
