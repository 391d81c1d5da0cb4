"""Tokens under other names, times for a duration, a trace in parts: alike in every reader."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.records.derived_fields import parse_seconds, parse_seconds_in
from calipers.records.fields import BadValue
from calipers.support.errors import DataError
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.examples import examples
from tests.files import write_lines

CALLS = [{"tool_name": "search"}, {"tool_name": "write"}]
RECORDS: list[dict[str, Any]] = [
    {"id": "a", "input_tokens": 10, "output_tokens": 2, "start_time": 100.5, "end_time": 103},
    {"id": "b", "prompt_tokens": 20, "input_tokens": 99, "completion_tokens": 4},
    {"id": "c", "start_time": "2024-02-29T23:59:58.5Z", "end_time": "2024-03-01 01:00:00+01:00"},
    {"id": "d", "duration_seconds": 4.0, "start_time": "never", "end_time": "ever"},
    {"id": "e", "tool_calls": CALLS, "agent_tasks": {"a": 1, "b": 1}},
    {"id": "f", "trace": {"tool_calls": CALLS, "start_time": 5, "end_time": "7"}},
    {"id": "g", "tool_calls": [{"id": "1", "function": {"name": "search", "arguments": "{}"}}]},
]
METRICS = ["prompt_tokens_mean", "completion_tokens_mean", "duration_seconds", "path_convergence"]
EXPECTED = {
    "prompt_tokens_mean": (15.0, 2),
    "completion_tokens_mean": (3.0, 2),
    "duration_seconds": ((2.5 + 1.5 + 4 + 2) / 4, 4),
}


def measured(data: Any, **options: Any) -> dict[str, Any]:
    return dict(cal.score(data, metrics=METRICS, **options).groups[0].metrics)


def with_text(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records as a table of texts holds them."""
    return [
        {
            name: value if value is None or isinstance(value, str) else json.dumps(value)
            for name, value in row.items()
        }
        for row in records
    ]


@pytest.mark.parametrize("way", ["jsonl", "rows", "parquet", "csv", "slow"])
def test_every_reader_completes_records_alike(tmp_path: Path, way: str) -> None:
    path = tmp_path / f"a.{way if way in ('parquet', 'csv') else 'jsonl'}"
    data: Any = path
    if way == "rows":
        data = RECORDS
    elif way in ("jsonl", "slow"):
        more = [{"id": "\ud800", "error": "x"}] if way == "slow" else []
        write_lines(path, [*RECORDS, *more])
    else:
        names = dict.fromkeys(name for row in RECORDS for name in row)
        texts = [{name: row.get(name) for name in names} for row in with_text(RECORDS)]
        frame = pl.DataFrame(texts, schema=dict.fromkeys(names, pl.String))
        numbers = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
        casts = [pl.col(name).cast(pl.Float64) for name in (*numbers, "duration_seconds")]
        frame.write_csv(path) if way == "csv" else frame.with_columns(casts).write_parquet(path)
    found = measured(data)
    for name, (value, n) in EXPECTED.items():
        assert (found[name].value, found[name].n) == (pytest.approx(value), n), name
    assert found["path_convergence"].n == 3


@pytest.mark.parametrize(
    "only", [RECORDS[:1], RECORDS[2:3], RECORDS[4:5], RECORDS[5:6]], ids=["a", "c", "e", "f"]
)
def test_one_block_without_traces_of_its_own_is_read_fast(
    tmp_path: Path, only: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(tmp_path / "a.jsonl", only)
    expected = measured(only)
    monkeypatch.setattr("calipers.records.readers.line_chunk.JsonLinesChunk.exact", lambda _: 1 / 0)
    found = measured(path)
    assert {n: (m.value, m.n) for n, m in found.items()} == {
        n: (m.value, m.n) for n, m in expected.items()
    }


def test_a_table_of_times(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    start = pl.Series("start_time", ["2024-01-01T00:00:00", "2024-01-01T00:00:10"])
    frame = pl.DataFrame({"id": ["a", "b"], "start_time": start.str.to_datetime()})
    frame = frame.with_columns(end_time=pl.col("start_time") + pl.duration(milliseconds=1500))
    frame.write_parquet(path)
    assert measured(path)["duration_seconds"].value == 1.5


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"start_time": 5, "end_time": 4}, "end_time is before start_time"),
        ({"start_time": "yesterday", "end_time": 4}, "start_time: yesterday is not a time"),
        ({"start_time": "2024-02-30T00:00:00", "end_time": 4}, "not a calendar date"),
        ({"input_tokens": -1}, "input_tokens: -1 is negative"),
        ({"input_tokens": True}, "input_tokens: true is not a number"),
        ({"tool_calls": [{"context": "x"}]}, "tool_name is missing"),
    ],
)
@pytest.mark.parametrize("way", ["jsonl", "parquet"])
def test_what_is_wrong_is_told_with_its_row(
    tmp_path: Path, row: dict[str, Any], told: str, way: str
) -> None:
    path = tmp_path / f"a.{way}"
    rows = [{"id": "1"}, {"id": "2", **row}]
    if way == "jsonl":
        write_lines(path, rows)
    else:
        if row == {"input_tokens": True}:
            told = "input_tokens: True is not"
        pl.DataFrame(
            [{"id": "2", **row}] if "start_time" in row else rows, strict=False
        ).write_parquet(path)
    with pytest.raises(DataError) as raised:
        measured(path)
    assert told.lower() in str(raised.value).lower()
    assert f"{path}:" in str(raised.value)


TIMES = st.one_of(
    st.integers(-(10**15), 10**15).map(str),
    st.floats(allow_nan=False).map(repr),
    st.datetimes().map(lambda each: each.isoformat()),
    st.from_regex(
        r"[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9])?(Z|[+-][0-2][0-9]:[0-6][0-9])?",
        fullmatch=True,
    ),
    st.text(max_size=12),
)


@examples(300, deadline=None)
@given(st.lists(TIMES, min_size=1, max_size=20))
def test_times_are_read_alike_one_by_one_and_all_at_once(texts: list[str]) -> None:
    def one(text: str) -> float | None:
        try:
            return parse_seconds(text, "start_time")
        except BadValue:
            return None

    at_once = pl.DataFrame({"t": texts}, schema={"t": pl.String}).select(
        parse_seconds_in(pl.col("t"))
    )
    assert at_once.to_series().to_list() == [one(text) for text in texts]


VALUES = st.one_of(
    st.none(),
    st.sampled_from([0, 5, 7.25, -1, True, "8", "9.5", "x", "2024-01-01T00:00:00Z", [], {}, CALLS]),
    st.sampled_from([[{"tool_name": 5, "context": "\t\\"}], [{"function": {"name": "f"}}], "[]"]),
)
INPUTS = ("input_tokens", "output_tokens", "start_time", "end_time", "tool_calls", "agent_tasks")
OWN = ("prompt_tokens", "duration_seconds")
ROWS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(INPUTS, VALUES),
        **dict.fromkeys(OWN, st.sampled_from([None, 3, 4.5])),
        "trace": st.one_of(
            st.none(), st.fixed_dictionaries({}, optional=dict.fromkeys(INPUTS[2:], VALUES))
        ),
    },
)


@examples(150, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=5))
def test_fast_and_slow_agree(rows: list[dict[str, Any]]) -> None:
    def told(data: Any) -> Any:
        try:
            found = measured(data, on_bad="skip")
        except DataError as error:
            return str(error)
        return {name: (each.value, each.n) for name, each in found.items()}

    numbered = [{"id": "good"}, *({"id": str(n), **row} for n, row in enumerate(rows))]
    with TemporaryDirectory() as folder:
        path = write_lines(Path(folder) / "a.jsonl", numbered)
        assert told(path) == told(numbered)


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_engines_agree_on_what_is_completed_and_truncated(
    tmp_path: Path, engine: str, suffix: str
) -> None:
    rows = [{**row, "finish_reason": "length"} if row["id"] in "ac" else row for row in RECORDS]
    path = tmp_path / f"a.{suffix}"
    if suffix == "jsonl":
        write_lines(path, rows)
    else:
        cal.convert(RECORDS_WITHOUT_MIXED_TIMES, path)
    score = cal.score(path, metrics=METRICS, engine=engine)
    found = {name: (each.value, each.n) for name, each in score.groups[0].metrics.items()}
    if suffix == "jsonl":
        assert score.groups[0].truncated == 2
        assert found["duration_seconds"] == (2.5, 4)
    assert found["prompt_tokens_mean"] == (15.0, 2)
    assert found["path_convergence"][1] == 3


RECORDS_WITHOUT_MIXED_TIMES = [
    {name: value for name, value in row.items() if name not in ("start_time", "end_time")}
    for row in RECORDS
]
