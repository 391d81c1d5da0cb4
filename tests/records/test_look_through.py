"""What all rows of a file hold, found before it is converted: fields and kinds that come late."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.records import sinks
from calipers.records.readers import line_chunk
from calipers.records.readers.line_chunk import read_unfamiliar_objects
from calipers.records.rows import Seen, read_objects, select_informative_rows
from calipers.support.native import open_library
from tests.examples import examples
from tests.records.log_files import write_texts

WHOLE = st.sampled_from([0, -7, 2**53 - 1, 2**53, -(2**53), 10**18, 10**19 + 1, 10**25])
VALUES: st.SearchStrategy[Any] = (
    st.sampled_from(
        [None, True, False, "", "true", "é", [], {}, {"é": [1]}, 1.5, -0.0, float("nan")]
    )
    | WHOLE
)
NAMES = st.sampled_from(["id", "model", "prob_correct", "Größe", "weight (kg)", 'a "b"', "x\ny"])
ROWS = st.dictionaries(NAMES, VALUES, max_size=4)
CONFIDENCES = st.dictionaries(st.sampled_from(["verbal", "logit"]), st.just(0.5), max_size=2)
ODD = st.sampled_from(
    ["", " ", "[]", "no JSON", '{"id": 1', '{"id": 1, "id": "a"}', '{"id": 1e999}', '{"id": -0}',
     '\ufeff{"id": true}', '{"id": 12345678901234567890123}', '{"id":9007199254740992.5}']
)  # fmt: skip
LINES = st.lists(
    st.builds(lambda row: json.dumps(row, ensure_ascii=False), ROWS)
    | st.builds(json.dumps, ROWS)
    | st.builds(lambda names: json.dumps({"prob_correct": names}), CONFIDENCES)
    | ODD,
    max_size=12,
)


@examples(300)
@given(lines=LINES, ending=st.sampled_from(["\n", "\r\n"]), stops=st.sampled_from([1, 3, 500]))
def test_the_native_look_finds_what_python_finds(lines: list[str], ending: str, stops: int) -> None:
    data = ending.join(lines).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_chunk, "_MOST_STOPS", stops)
        seen = Seen()
        found = [*select_informative_rows(read_unfamiliar_objects(data, seen), seen)]
    # As text, in which NaN is itself.
    assert str(found) == str([*select_informative_rows(read_objects(data))])


def test_a_field_of_the_last_line_and_a_late_kind_are_columns(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": f"case {number}", "answer": "4", "seed": number, "room": "A"}
        for number in range(900)
    ]
    rows[850]["room"] = 12
    rows[860]["seed"] = 2**60 + 1
    rows[-1] |= {"reviewer": "Łukasz", "prob_correct": {"verbal": 0.25}}
    made = cal.convert(write_texts(tmp_path / "a.jsonl", *rows), tmp_path / "a.parquet")
    table = pl.read_parquet(tmp_path / "a.parquet")
    assert {"reviewer", "prob_correct.verbal"} <= {*made.columns}
    assert table["reviewer"].to_list() == [None] * 899 + ["Łukasz"]
    assert table["prob_correct.verbal"][-1] == 0.25
    assert table["room"][0] == "A"
    assert table["room"][850] == "12"
    assert table["seed"][1] == "1"
    assert table["seed"][860] == str(2**60 + 1)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
@pytest.mark.parametrize("held", [0, 2_000])
def test_parts_in_memory_and_in_files_give_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, held: int
) -> None:
    first = [{"id": str(number), "answer": "4", "level": number} for number in range(50)]
    second = [{"id": f"b{number}", "answer": "5", "level": "hard"} for number in range(50)]
    files: list[list[dict[str, Any]]] = [first, second, first, second]
    logs = [write_texts(tmp_path / f"{at}.jsonl", *rows) for at, rows in enumerate(files)]
    cal.convert(logs, tmp_path / f"whole.{suffix}")
    monkeypatch.setattr(sinks, "_HELD_BYTES", held)
    cal.convert(logs, tmp_path / f"parts.{suffix}")
    read = pl.read_parquet if suffix == "parquet" else pl.read_ndjson
    whole, parts = (read(tmp_path / f"{name}.{suffix}") for name in ("whole", "parts"))
    assert parts.height == 200
    assert parts.equals(whole)
    assert parts.schema == whole.schema


@pytest.mark.long
@pytest.mark.skipif(open_library() is None, reason="built without Rust")
def test_convert_costs_little_more_than_reading_and_writing(tmp_path: Path) -> None:
    rows, rng = 800_000, np.random.default_rng(7)
    lines = tmp_path / "answers.jsonl"
    pl.DataFrame(
        {
            "id": "task-" + pl.Series(range(rows)).cast(pl.String),
            "model": pl.Series(["llama3", "gpt-4o"]).gather(rng.integers(0, 2, rows)),
            "answer": pl.Series(rng.integers(0, 99_999, rows)).cast(pl.String),
            "prob_correct": np.round(rng.random(rows), 4),
            "dataset": pl.Series(["gsm8k", "mmlu"]).gather(rng.integers(0, 2, rows)),
            "seed": rng.integers(0, 100, rows),
        }
    ).write_ndjson(lines)
    cal.convert([{"id": "a"}], tmp_path / "loaded.parquet")
    began = process_time()
    pl.read_ndjson(lines).write_parquet(tmp_path / "by_hand.parquet")
    by_hand = process_time() - began
    began = process_time()
    cal.convert(lines, tmp_path / "converted.parquet")
    # 1.2 times; classified value by value in Python it took 5 to 8 times as long.
    assert process_time() - began < 2.2 * by_hand
