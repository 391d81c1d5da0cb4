"""`calipers convert`: any log as one table of records."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from click.testing import CliRunner, Result

import calipers as cal
from calipers.cli import app
from tests.sources.log_files import inspect_log, lm_eval_line, sample, written


def _invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_convert_writes_what_scores_alike(tmp_path: Path) -> None:
    log = inspect_log(tmp_path / "a.eval", [sample(n, "C" if n % 3 else "I") for n in range(1, 20)])
    for name in ("out.parquet", "out.jsonl"):
        result = _invoke("convert", log, "-o", tmp_path / name)
        assert result.exit_code == 0, result.output
        assert "19 records" in result.output
        expected, found = cal.score(log), cal.score(tmp_path / name)
        assert found.groups[0].metrics == expected.groups[0].metrics


def test_convert_joins_logs_of_several_tools(tmp_path: Path) -> None:
    logs = [
        inspect_log(tmp_path / "a.eval", [sample(1)]),
        written(tmp_path / "samples.jsonl", lm_eval_line(1)),
        written(tmp_path / "own.jsonl", {"id": "x", "answer": "1", "target": "2", "level": "hard"}),
    ]
    made = cal.convert(logs, tmp_path / "all.parquet")
    table = pl.read_parquet(tmp_path / "all.parquet")
    assert made.records == table.height == 3
    assert table["level"].to_list() == ["1.0", None, "hard"]
    assert cal.score(tmp_path / "all.parquet").groups[0].metrics["accuracy"].n == 3


def test_convert_keeps_what_it_replaces_until_it_is_whole(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    written(good, {"id": "1", "answer": "1"})
    bad.write_text('{"id": "1", "prob_correct": 3}\n', encoding="utf-8")
    out = tmp_path / "out.parquet"
    assert _invoke("convert", good, "-o", out).exit_code == 0
    before = out.read_bytes()
    result = _invoke("convert", good, bad, "-o", out)
    assert result.exit_code == 2
    assert "bad.jsonl:1" in result.output
    assert out.read_bytes() == before
    skipped = _invoke("convert", good, bad, "-o", out, "--on-bad", "skip")
    assert skipped.exit_code == 0
    assert "1 bad rows left out" in skipped.output


def test_convert_refuses_formats_it_does_not_write(tmp_path: Path) -> None:
    good = written(tmp_path / "good.jsonl", {"id": "1"})
    assert _invoke("convert", good, "-o", tmp_path / "out.xlsx").exit_code == 2
    assert _invoke("convert", good, "-o", tmp_path / "no" / "out.parquet").exit_code == 2
    assert _invoke("convert", good).exit_code == 2
