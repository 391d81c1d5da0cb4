"""Wide tables: a column of answers per system."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.support.errors import UsageError
from tests.commands import refused, run

ROWS: list[dict[str, Any]] = [
    {
        "Question": f"{n} + 1",
        "Gold Answer": str(n + 1),
        "GPT Answer": str(n + 1),
        "Claude Answer": str(n + n % 2),
    }
    for n in range(8)
]
COLUMNS = ["GPT Answer", "Claude Answer"]
MAP = {"target": "Gold Answer", "input": "Question"}
ACCURACY = {"Claude Answer": 0.5, "GPT Answer": 1.0}


def write(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    if path.suffix == ".csv":
        pl.DataFrame(rows).write_csv(path)
    elif path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["wide.csv", "wide.parquet", "wide.jsonl"])
def test_a_wide_table_has_a_system_per_column(name: str, tmp_path: Path) -> None:
    score = cal.score(write(tmp_path / name), answers=COLUMNS, map=MAP, metrics=["accuracy"])
    assert {g.by["model"]: g.metrics["accuracy"].value for g in score.groups} == ACCURACY
    assert [group.records for group in score.groups] == [8, 8]


def test_wide_tables_in_memory() -> None:
    score = cal.score(ROWS, answers=COLUMNS, map=MAP, metrics=["accuracy"])
    assert {g.by["model"]: g.metrics["accuracy"].value for g in score.groups} == ACCURACY


def test_the_systems_of_a_wide_table_are_compared_on_the_same_tasks(tmp_path: Path) -> None:
    path = write(tmp_path / "wide.csv")
    [pair] = cal.compare(path, answers=COLUMNS, map=MAP, between="model", base="GPT Answer").pairs
    assert (pair.n_pairs, pair.metrics["accuracy"].difference) == (8, -0.5)
    ranked = cal.rank(path, answers=COLUMNS, map=MAP, metrics=["accuracy"])
    assert [each.name for each in ranked.systems] == COLUMNS


def test_every_system_of_a_wide_table_must_pass(tmp_path: Path) -> None:
    path = write(tmp_path / "wide.csv")
    policy = {"thresholds": {"blocking": {"accuracy": 90}}}
    (tmp_path / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
    more = ("--map", "target=Gold Answer", "--policy", tmp_path / "policy.json")
    assert run("gate", path, "--answers", "GPT Answer,Claude Answer", *more).exit_code == 1
    assert run("gate", path, "--answers", "GPT Answer", *more).exit_code == 0


def test_an_unknown_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path / "wide.csv")
    said = refused("score", path, "--answers", "GPT Anwser", "--map", "target=Gold Answer")
    assert "--answers GPT Anwser" in said
    assert "did you mean GPT Answer?" in said


@pytest.mark.parametrize("names", [{"target": "GPT Answer"}, {"answer": "Gold Answer"}])
def test_an_answer_is_never_compared_with_itself(names: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="with --answers"):
        cal.score(ROWS, answers=COLUMNS, map=names)
    gold = [{**row, "answer": row["Gold Answer"]} for row in ROWS]
    with pytest.raises(UsageError, match="a column answer already"):
        cal.score(gold, answers=COLUMNS, map={"target": "Gold Answer"})


def test_a_verdict_in_a_wide_table_is_nobodys() -> None:
    rows = [{**row, "correct": True} for row in ROWS]
    score = cal.score(rows, answers=COLUMNS, map=MAP, metrics=["accuracy"])
    assert {g.by["model"]: g.metrics["accuracy"].value for g in score.groups} == ACCURACY
    assert any("correct: left out" in notice for notice in score.notices)


@pytest.mark.parametrize("names", [(" my model", "my model "), ("^x$", "*"), ('a"b', "a,b")])
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_columns_of_answers_may_be_called_anything(
    names: tuple[str, str], ending: str, tmp_path: Path
) -> None:
    new = dict(zip(COLUMNS, names, strict=True))
    rows = [{new.get(name, name): value for name, value in row.items()} for row in ROWS]
    path = write(tmp_path / f"wide.{ending}", rows)
    options = ["--map", "target=Gold Answer", "--metric", "accuracy", "--format", "json"]
    given = ",".join(f'"{name}"' if "," in name else name for name in names)
    result = run("score", path, "--answers", given, *options)
    groups = json.loads(result.stdout)["groups"]
    found = {each["by"]["model"]: each["metrics"]["accuracy"]["value"] for each in groups}
    assert found == {new[name]: value for name, value in ACCURACY.items()}
    assert run("doctor", path).exit_code == 0
    assert run("convert", path, "-o", tmp_path / "r.parquet").exit_code == 0


def test_spaces_after_commas_are_layout(tmp_path: Path) -> None:
    path = write(tmp_path / "wide.csv")
    options = ["--map", "target = Gold Answer", "--metric", "accuracy", "--format", "json"]
    result = run("score", path, "--answers", "GPT Answer, Claude Answer", *options)
    assert len(json.loads(result.stdout)["groups"]) == 2


def test_doctor_names_the_option_that_reads_a_wide_table(tmp_path: Path) -> None:
    path = write(tmp_path / "wide.csv")
    [command] = [each for each in cal.doctor(path).commands if "--answers" in each]
    result = run(*shlex.split(command)[1:], "--metric", "accuracy", "--format", "json")
    assert len(json.loads(result.stdout)["groups"]) == 2
