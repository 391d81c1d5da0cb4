"""`calipers init --from`: what somebody's own tables and logs become runs, and passes its gate."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import calipers as cal
from calipers.cli import set_up
from calipers.runs.starter import own_data
from calipers.runs.starter.mapping import change_mapping, guess_mapping
from calipers.support.errors import UsageError
from tests.commands import run
from tests.files import write_lines
from tests.shared_data import FOLDER, needs_shared_data

MODELS = ("GPT-4o", "Llama 3.1 8B")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def write_table(path: str, head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)
    return path


def is_right(number: int, place: int) -> bool:
    return number % (3 + 2 * place) != 0


def write_long() -> str:
    head = ("Question ID", "LLM name", "Question", "Gold Answer", "Model Output", "Latency (ms)")
    rows = (
        (f"q{n}", model, f"What is {n} + {n}?", 2 * n, 2 * n + (not is_right(n, at)), 200 + n)
        for at, model in enumerate(MODELS)
        for n in range(30)
    )
    return write_table("long.csv", head, rows)


def write_wide() -> str:
    rows = (
        (f"What is {n} + {n}?", 2 * n, *(2 * n if is_right(n, at) else -1 for at in (0, 1)), "-")
        for n in range(30)
    )
    return write_table("wide.csv", ("prompt", "expected", *MODELS, "notes"), rows)


def write_nested() -> str:
    rows = [
        {
            "example": {"uid": f"u{n}", "question": f"Capital {n}?", "label": "Bern"},
            "choices": [{"message": {"content": "Bern" if is_right(n, 0) else "Basel"}}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 3},
        }
        for n in range(30)
    ]
    return str(write_lines(Path("nested.jsonl"), rows))


def write_parquet() -> str:
    pl.read_csv(write_long()).write_parquet("long.parquet")
    return "long.parquet"


def write_data_set() -> str:
    """A folder of Parquet files, as a Hugging Face data set is stored."""
    Path("set").mkdir()
    pl.read_csv(write_long()).write_parquet("set/train-00000-of-00001.parquet")
    return "set"


@pytest.mark.parametrize(
    ("write", "systems"),
    [
        (write_long, set(MODELS)),
        (write_wide, set(MODELS)),
        (write_nested, set()),
        (write_parquet, set(MODELS)),
        (write_data_set, set(MODELS)),
    ],
)
def test_records_become_a_policy_that_passes_and_a_suite_that_says_the_same(
    write: Callable[[], str], systems: set[str]
) -> None:
    data = write()
    made = run("init", "evals", "--from", data, "--yes")
    assert made.exit_code == 0, made.output
    by = ("--by", "model") if systems else ()
    gate = run(
        *("gate", "evals/records.parquet", "--policy", "evals/policy.yaml", *by),
        *("--format", "json"),
    )
    assert gate.exit_code == 0, gate.output
    checks = json.loads(gate.stdout)["checks"]
    assert {each["name"] for each in checks} >= {"accuracy"}
    assert {each["by"]["model"] for each in checks if each.get("by")} == systems
    assert any(each["level"] == "baseline" for each in checks)
    score = cal.score("evals/records.parquet", by=by[1:])
    for group in score.groups:
        at = MODELS.index(group.by["model"]) if systems else 0
        right = sum(is_right(n, at) for n in range(30))
        assert group["accuracy"].value == pytest.approx(right / 30)
    ran = run("run", "evals/suite.yaml", "-o", "out", "--no-report")
    assert ran.exit_code == 0, ran.output
    again = cal.score("out/records.jsonl", by=by[1:])
    assert [g["accuracy"].value for g in again.groups] == [
        g["accuracy"].value for g in score.groups
    ]
    assert "accuracy" in made.stdout  # the first table


def test_thresholds_stand_at_the_lower_bounds() -> None:
    run("init", "evals", "--from", write_long(), "--yes")
    policy = yaml.safe_load(Path("evals/policy.yaml").read_text(encoding="utf-8"))
    score = cal.score("evals/records.parquet", by="model")
    lows = [group["accuracy"].low or 0.0 for group in score.groups]
    wanted = policy["thresholds"]["blocking"]["accuracy"]
    assert wanted == f">= {int(100 * min(lows))}%"
    assert all(float(wanted[3:-1]) / 100 <= low for low in lows)
    assert set(policy["thresholds"]["warning"]) == {"latency_p95_ms"}


def test_a_worse_system_then_fails() -> None:
    run("init", "evals", "--from", write_wide(), "--yes")
    lines = Path("evals/recorded.jsonl").read_text(encoding="utf-8").splitlines()
    worse = [json.loads(line) | {"answer": "no idea"} for line in lines]
    write_lines(Path("evals/recorded.jsonl"), worse)
    assert run("run", "evals/suite.yaml", "-o", "out", "--no-report").exit_code == 1


def test_questions_with_answers_are_tasks_and_not_replies() -> None:
    rows = [{"question": f"{n}?", "answer": str(n % 4)} for n in range(20)]
    data = write_lines(Path("gsm.jsonl"), rows)
    assert guess_mapping(data).kind == "tasks"
    made = run("init", "evals", "--from", data, "--yes")
    assert made.exit_code == 0, made.output
    ran = run("run", "evals/suite.yaml", "-o", "out", "--no-report")
    assert ran.exit_code == 0, ran.output
    score = json.loads(Path("out/score.json").read_text(encoding="utf-8"))
    assert score["groups"][0]["metrics"]["accuracy"]["value"] == 0.25  # the most frequent target


def test_without_a_target_it_says_so_and_still_runs() -> None:
    data = write_table("inputs.csv", ["text"], [[f"Say {n}."] for n in range(5)])
    made = run("init", "evals", "--from", data, "--yes")
    assert "no column holds what is right" in made.stderr
    assert run("run", "evals/suite.yaml", "-o", "out", "--no-report").exit_code == 0


def test_what_it_shows_are_columns_with_their_first_values() -> None:
    made = run("init", "evals", "--from", write_long(), "--yes")
    assert "long.csv looks like a table of records" in made.stdout
    row = next(line for line in made.stdout.splitlines() if " target " in line)
    assert row.split() == ["target", "Gold", "Answer", "0", "2", "4"]


def test_it_asks_on_a_terminal_and_takes_a_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_table(
        "odd.csv", ["question", "answer", "chosen"], [[f"{n}?", n, n] for n in range(9)]
    )
    refused = run("init", "evals", "--from", data)
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert not Path("evals").exists()
    monkeypatch.setattr(set_up, "_is_terminal", lambda: True)
    made = run("init", "evals", "--from", data, input="nosuch=question\ntarget=chosen\n\n")
    assert "the record has no field nosuch" in made.stderr
    assert made.exit_code == 0, made.output
    assert Path("evals/records.parquet").exists()  # with a target, the answers are replies


def test_names_on_the_command_line_go_before_the_guess() -> None:
    found = guess_mapping(write_wide())
    assert found.answers == MODELS
    changed = change_mapping(found, {"target": "notes"}, ["GPT-4o"])
    assert changed.known["target"] == "notes"
    assert changed.answers == ("GPT-4o",)
    with pytest.raises(UsageError, match="no column Notes"):
        change_mapping(found, {"target": "Notes"})
    made = run("init", "e", "--from", "wide.csv", "--map", "category=notes", "--yes")
    assert made.exit_code == 0, made.output
    assert set(pl.read_parquet("e/records.parquet")["category"]) == {"-"}


def test_columns_called_like_a_field_may_hold_answers() -> None:
    rows = ((n, n, n if n % 2 else 0, n if n % 3 else 0) for n in range(12))
    data = write_table("w.csv", ("question", "gold", "Model A", "Model B"), rows)
    assert guess_mapping(data).answers == ("Model A", "Model B")


@pytest.mark.parametrize("text", ["", "a,b\n"])
def test_an_empty_file_is_told_apart_from_a_mistake(text: str) -> None:
    Path("empty.csv").write_text(text, encoding="utf-8")
    made = run("init", "evals", "--from", "empty.csv", "--yes")
    assert made.exit_code == 3
    assert "no rows in it" in made.stderr
    assert not Path("evals").exists()


def test_rows_that_cannot_be_read_are_no_empty_file() -> None:
    rows = [{"input": {"q": f"{n}?"}, "answer": "a", "target": "a"} for n in range(9)]
    made = run("init", "evals", "--from", write_lines(Path("nested.jsonl"), rows), "--yes")
    assert made.exit_code == 2
    assert "nested.jsonl:1: input: " in made.stderr
    assert "no rows" not in made.stderr
    assert "rename it" not in run("doctor", "nested.jsonl").output


def test_a_column_that_no_row_fits_is_an_error_and_writes_nothing() -> None:
    data = write_table("wahr.csv", ("id", "Richtig"), ((n, "ja") for n in range(9)))
    made = run("init", "evals", "--from", data, "--map", "passed=Richtig", "--yes")
    assert made.exit_code == 2
    assert 'wahr.csv:1: Richtig: "ja" is not true or false' in made.stderr
    assert not [path for path in Path("evals").rglob("*") if path.is_file()]


def test_lists_inside_of_records_are_guessed() -> None:
    rows = [
        {"case": {"id": f"n{n}", "tags": ["a"]}, "out": {"answer": "4"}, "gold": {"target": "4"}}
        for n in range(9)
    ]
    found = guess_mapping(write_lines(Path("lists.jsonl"), rows))
    assert found.fields["tags"] == "case.tags"
    assert found.fields["answer"] == "out.answer"


@pytest.mark.parametrize("options", [(), ("--from", "long.csv", "--yes")])
def test_commands_to_run_next_are_quoted(options: tuple[str, ...]) -> None:
    write_long()
    made = run("init", "my $(evals) *", *options)
    assert made.exit_code == 0, made.output
    told = [line.partition(": ")[2] for line in made.stderr.splitlines() if ": calipers" in line]
    assert told
    for command in told:
        _, name, data, *_ = shlex.split(command)
        assert run(name, "--help").exit_code == 0
        assert Path(data).exists(), command


def test_nothing_is_overwritten_unasked() -> None:
    Path("evals").mkdir()
    Path("evals/policy.yaml").write_text("mine", encoding="utf-8")
    made = run("init", "evals", "--from", write_long(), "--yes")
    assert made.exit_code == 2
    assert "there already" in made.stderr
    assert [each.name for each in Path("evals").iterdir()] == ["policy.yaml"]
    assert run("init", "evals", "--from", "long.csv", "--yes", "--force").exit_code == 0


def test_a_very_large_file_is_read_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_data, "_LARGEST", 100)
    made = run("init", "evals", "--from", write_long(), "--yes")
    assert made.exit_code == 0, made.output
    assert not Path("evals/records.parquet").exists()
    command = next(line for line in made.stderr.splitlines() if line.startswith("next: "))
    assert "--map 'id=Question ID'" in command
    assert Path("evals/policy.yaml").exists()


def test_failed_calls_of_a_log_do_not_leave_its_policy_incomplete() -> None:
    rows = [
        {"id": str(n), "input": f"{n}?", "target": "a", "answer": "a", "error": None}
        for n in range(20)
    ]
    rows[0] |= {"answer": None, "error": "timeout: 60 s"}
    made = run("init", "evals", "--from", write_lines(Path("r.jsonl"), rows), "--yes")
    assert made.exit_code == 0, made.output
    gate = run("gate", "evals/records.parquet", "--policy", "evals/policy.yaml")
    assert gate.exit_code == 0, gate.output


@needs_shared_data
def test_system_names_as_they_are_in_the_world() -> None:
    lines = (FOLDER / "names.txt").read_text(encoding="utf-8").splitlines()
    names = [json.loads(line) for line in lines if line and not line.startswith("#")][:30]
    rows = [
        {"task": f"t{n}", "LLM": name, "gold": n, "output": n if n % 4 else "no"}
        for name in names
        for n in range(12)
    ]
    made = run("init", "evals", "--from", write_lines(Path("r.jsonl"), rows), "--yes")
    assert made.exit_code == 0, made.output
    gate = run(*("gate", "evals/records.parquet", "--policy", "evals/policy.yaml"), "--by", "model")
    assert gate.exit_code == 0, gate.output
