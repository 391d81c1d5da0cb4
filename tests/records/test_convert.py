"""`calipers convert`: any log as one table of records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.support.errors import DataError
from tests.commands import run
from tests.records.log_files import make_lm_eval_line, sample, write_inspect_log, write_texts


def test_convert_writes_what_scores_alike(tmp_path: Path) -> None:
    log = write_inspect_log(
        tmp_path / "a.eval", [sample(n, "C" if n % 3 else "I") for n in range(1, 20)]
    )
    for name in ("out.parquet", "out.jsonl"):
        result = run("convert", log, "-o", tmp_path / name)
        assert result.exit_code == 0, result.output
        assert "19 records" in result.output
        expected, found = cal.score(log), cal.score(tmp_path / name)
        assert found.groups[0].metrics == expected.groups[0].metrics


def test_convert_joins_logs_of_several_tools(tmp_path: Path) -> None:
    logs = [
        write_inspect_log(tmp_path / "a.eval", [sample(1)]),
        write_texts(tmp_path / "samples.jsonl", make_lm_eval_line(1)),
        write_texts(
            tmp_path / "own.jsonl", {"id": "x", "answer": "1", "target": "2", "level": "hard"}
        ),
    ]
    made = cal.convert(logs, tmp_path / "all.parquet")
    table = pl.read_parquet(tmp_path / "all.parquet")
    assert made.records == table.height == 3
    assert table["level"].to_list() == ["1", None, "hard"]
    assert cal.score(tmp_path / "all.parquet").groups[0].metrics["accuracy"].n == 3


def test_convert_keeps_what_it_replaces_until_it_is_whole(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    write_texts(good, {"id": "1", "answer": "1"})
    bad.write_text('{"id": "1", "prob_correct": 3}\n', encoding="utf-8")
    out = tmp_path / "out.parquet"
    assert run("convert", good, "-o", out).exit_code == 0
    before = out.read_bytes()
    result = run("convert", good, bad, "-o", out)
    assert result.exit_code == 2
    assert "bad.jsonl:1" in result.output
    assert out.read_bytes() == before
    skipped = run("convert", good, bad, "-o", out, "--on-bad", "skip")
    assert skipped.exit_code == 0
    assert "1 bad rows left out" in skipped.output


def test_convert_refuses_formats_it_does_not_write(tmp_path: Path) -> None:
    good = write_texts(tmp_path / "good.jsonl", {"id": "1"})
    assert run("convert", good, "-o", tmp_path / "out.xlsx").exit_code == 2
    assert run("convert", good, "-o", tmp_path / "no" / "out.parquet").exit_code == 2
    assert run("convert", good).exit_code == 2


def test_a_file_of_nothing_but_bad_rows_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("garbage\nmore\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.jsonl:1: not JSON"):
        cal.read(path)
    with pytest.raises(DataError, match=r"a\.jsonl:1: not JSON"):
        cal.convert(path, tmp_path / "a.parquet")


LATE: list[dict[str, Any]] = [
    *({"id": str(number), "answer": "1", "target": "1", "level": 1} for number in range(1_500)),
    {"id": "a", "error": "no reply", "level": "hard", "mine": True},
]


def test_what_only_late_rows_have_is_kept(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "a.jsonl", *LATE)
    for data in (path, LATE):
        table = cal.read(data)
        assert table.row(-1, named=True) == {**LATE[-1], "answer": None, "target": None}
        assert table["level"][0] == "1"
    written_to = cal.convert(path, tmp_path / "a.parquet").path
    assert cal.score(written_to).groups[0].errors == 1


def test_what_only_late_samples_of_a_log_have_is_kept(tmp_path: Path) -> None:
    samples = [sample(number, metadata={"level": number}) for number in range(1_200)]
    samples.append(sample(1_200, metadata={"level": "hard"}, error={"message": "boom"}))
    table = cal.read(write_inspect_log(tmp_path / "a.eval", samples))
    assert table.row(-1, named=True)["error"] == "boom"
    assert table["level"].to_list()[-2:] == ["1199", "hard"]


def test_bad_rows_are_left_out_and_written_down(tmp_path: Path) -> None:
    lines = [make_lm_eval_line(1), make_lm_eval_line(2, doc_id=[1]), make_lm_eval_line(3)]
    path = write_texts(tmp_path / "samples.jsonl", *lines)
    output, bad = tmp_path / "a.parquet", tmp_path / "bad.jsonl"
    result = run("convert", path, "-o", output, "--on-bad", "skip", "--bad-rows", bad)
    assert result.exit_code == 0, result.output
    assert pl.read_parquet(output)["id"].to_list() == ["1", "3"]
    assert json.loads(bad.read_text(encoding="utf-8"))["row"] == 2
