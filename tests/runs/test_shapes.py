"""Data as others have it: names of their own, nested, without a target."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.commands import refused
from tests.runs.suites_at_hand import SuiteFolder

AGENT = """
def add(record):
    first, second = record["prompt"].split("+")
    return str(int(first) + int(second))
"""
ROWS = [
    {"Question": "1+1", "Gold Answer": "2", "Subject": "sums"},
    {"Question": "2+2", "Gold Answer": "05", "Subject": "sums"},
]


def make_suite(path: Path, rows: list[dict[str, Any]], name: str, **more: Any) -> SuiteFolder:
    if name.endswith(".csv"):
        with (path / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        (path / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (path / "agent.py").write_text(AGENT, encoding="utf-8")
    systems = [{"name": "llama3", "python": "agent.py:add"}]
    suite = {"name": "shapes", "data": name, "prompt": "{input}", "systems": systems, **more}
    return SuiteFolder(path, suite).write()


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
@pytest.mark.parametrize("prompt", ["{input}", "{Question}"])
def test_a_suite_reads_the_datas_own_names(name: str, prompt: str, tmp_path: Path) -> None:
    names = {"input": "Question", "target": "Gold Answer", "category": "Subject"}
    suite = make_suite(tmp_path, ROWS, name, map=names, prompt=prompt)
    result = suite.run()
    assert result.exit_code == 0, result.output
    found = [(each["target"], each["answer"], each["category"]) for each in suite.records()]
    assert found == [("2", "2", "sums"), ("05", "4", "sums")]
    assert suite.json("score.json")["groups"][0]["metrics"]["accuracy"]["value"] == 0.5


def test_a_map_reaches_into_lists(tmp_path: Path) -> None:
    rows = [{"talk": [{"role": "user", "text": "1+2"}], "gold": {"answers": ["x", "3"]}}]
    names = {"input": "talk[0].text", "target": "gold.answers[-1]"}
    suite = make_suite(tmp_path, rows, "rows.jsonl", map=names, prompt="{talk[0].text}")
    assert suite.run().exit_code == 0
    assert [(each["target"], each["answer"]) for each in suite.records()] == [("3", "3")]


def test_the_answer_column_of_a_data_set_can_be_the_target(tmp_path: Path) -> None:
    rows = [{"question": "1+1", "answer": "3"}]
    suite = make_suite(tmp_path, rows, "rows.jsonl", map={"input": "question", "target": "answer"})
    assert suite.run().exit_code == 0
    (record,) = suite.records()
    assert (record["target"], record["answer"], record["task"]) == ("3", "2", {"answer": "3"})


def test_a_mapped_name_that_no_task_has_stops_before_the_first_call(tmp_path: Path) -> None:
    names = {"input": "Question", "target": "Gold Anwser"}
    suite = make_suite(tmp_path, ROWS, "rows.csv", map=names)
    result = suite.run()
    assert result.exit_code == 2
    assert "no task in" in result.output
    assert "Gold Anwser" in result.output
    assert "did you mean Gold Answer?" in result.output
    assert not suite.results.exists()


@pytest.mark.parametrize("field", ["answer", "correct", "passed", "judgments", "reported.passed"])
def test_a_map_cannot_give_what_the_run_finds_out(field: str, tmp_path: Path) -> None:
    suite = make_suite(tmp_path, ROWS, "rows.csv", map={field: "Gold Answer"})
    result = suite.run()
    assert result.exit_code == 2
    assert f"{field} is what the run writes" in result.output


@pytest.mark.parametrize(
    ("row", "guess"),
    [
        ({"Question": "1+1", "Gold Answer": "2"}, "{input: Question, target: Gold Answer}"),
        ({"input": "1+1", "answer": "2"}, "{target: answer}"),
        ({"input": "1+1", "doc": {"solution": "2"}}, '{target: "doc.solution"}'),
        ({"input": "1+1", "length": 3}, "{target: COLUMN}"),
    ],
)
def test_data_without_a_target_says_so_with_a_guess(
    row: dict[str, Any], guess: str, tmp_path: Path
) -> None:
    prompt = "{input}" if "input" in row else "{Question}"
    suite = make_suite(tmp_path, [row], "rows.jsonl", prompt=prompt)
    result = suite.run()
    assert result.exit_code == 0, result.output
    told = [line for line in result.output.splitlines() if "no task has a target" in line]
    assert len(told) == 1
    assert f"map: {guess} in the suite" in told[0]


def test_data_with_checks_needs_no_target(tmp_path: Path) -> None:
    checks = [{"expect": "says two", "contains": "2"}]
    suite = make_suite(tmp_path, [{"input": "1+1"}], "rows.jsonl", checks=checks)
    assert "no task has a target" not in suite.run().output


def test_a_prompt_without_its_input_is_told_the_map(tmp_path: Path) -> None:
    suite = make_suite(tmp_path, ROWS, "rows.csv")
    result = suite.run()
    assert result.exit_code == 2
    assert "map: {input: Question} in the suite" in result.output


PROMPTS = [
    {"name": "steps", "prompt": "{input}+1"},
    {"name": "plain", "prompt": "{input}", "settings": {"temperature": 0}},
]
SUMS = [{"id": f"q{n}", "input": f"{n}+1", "target": str(n + 1)} for n in range(6)]
TOTAL = """
def total(record):
    return str(sum(map(int, record["prompt"].split("+"))))
"""


def compare_prompts(path: Path, **more: Any) -> SuiteFolder:
    suite = make_suite(path, SUMS, "rows.jsonl", prompts=PROMPTS, **more)
    (path / "agent.py").write_text(TOTAL, encoding="utf-8")
    systems = [{"name": name, "python": "agent.py:total"} for name in ("gpt-4o-mini", "llama3")]
    without = {name: value for name, value in suite.suite.items() if name != "prompt"}
    return SuiteFolder(path, {**without, "systems": systems}).write()


def test_prompts_are_variants_of_every_system(tmp_path: Path) -> None:
    suite = compare_prompts(tmp_path, runs=2)
    result = suite.run()
    assert result.exit_code == 0, result.output
    records = suite.records()
    calls = {(each["id"], each["model"], each["variant"], each["run"]) for each in records}
    assert len(calls) == len(records) == 6 * 2 * 2 * 2
    groups = suite.json("score.json")["groups"]
    found = [(*each["by"].values(), each["metrics"]["accuracy"]["value"]) for each in groups]
    assert sorted(found) == [
        ("gpt-4o-mini", "plain", 1.0),
        ("gpt-4o-mini", "steps", 0.0),
        ("llama3", "plain", 1.0),
        ("llama3", "steps", 0.0),
    ]
    assert "counted twice" not in result.output
    again = suite.run()
    assert "48 reused" in again.output
    assert "0 answers new" in again.output


def test_a_run_of_prompts_continues_where_it_stopped(tmp_path: Path) -> None:
    suite = compare_prompts(tmp_path)
    assert suite.run().exit_code == 0
    journal = suite.results / "records.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["variant"] == "steps"]
    journal.write_text("".join(kept), encoding="utf-8")
    assert "12 answers new, 12 reused" in suite.run().output


def test_the_first_prompt_is_the_base_of_a_comparison(tmp_path: Path) -> None:
    suite = compare_prompts(tmp_path)
    assert suite.run().exit_code == 0
    records = suite.results / "records.jsonl"
    [pair] = cal.compare(records, between="variant", by=["model"]).pairs
    assert (pair.base, pair.candidate) == ("steps", "plain")
    assert pair.metrics["accuracy"].difference == 1.0
    [turned] = cal.compare(records, between="variant", base="plain").pairs
    assert (turned.base, turned.metrics["accuracy"].difference) == ("plain", -1.0)


def test_a_gate_decides_on_each_prompt(tmp_path: Path) -> None:
    policy = {"thresholds": {"blocking": {"accuracy": 90}}}
    (tmp_path / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    suite = compare_prompts(tmp_path, policy="policy.yaml")
    assert suite.run().exit_code == 1
    checks = suite.json("gate.json")["checks"]
    verdicts = {each["by"]["variant"]: each["verdict"] for each in checks}
    assert verdicts == {"steps": "fail", "plain": "pass"}


@pytest.mark.parametrize(
    "other", [{"prompt": "{input}"}, {"tiers": [{"name": "T0", "prompt": "{input}"}]}]
)
def test_prompts_stand_alone(other: dict[str, Any], tmp_path: Path) -> None:
    suite = compare_prompts(tmp_path)
    result = SuiteFolder(tmp_path, {**suite.suite, **other}).write().run()
    assert result.exit_code == 2
    assert f"either {next(iter(other))} or prompts" in result.output


def test_a_system_cannot_say_which_prompt_it_was_given(tmp_path: Path) -> None:
    suite = compare_prompts(tmp_path)
    lies = 'def total(record):\n    return {"answer": "1", "variant": "plain"}\n'
    (tmp_path / "agent.py").write_text(lies, encoding="utf-8")
    assert suite.run().exit_code == 3
    variants = [each["variant"] for each in suite.records()]
    assert variants.count("steps") == variants.count("plain") == 12


def test_an_exception_names_the_line_of_the_users_own_code(tmp_path: Path) -> None:
    suite = make_suite(tmp_path, SUMS[:1], "rows.jsonl")
    (tmp_path / "parsing.py").write_text(
        "import json\n\ndef parse(text):\n    return json.loads(text)\n", encoding="utf-8"
    )
    (tmp_path / "agent.py").write_text(
        "from parsing import parse\n\ndef add(record):\n    return parse(record['input'])\n",
        encoding="utf-8",
    )
    assert suite.run().exit_code == 3
    [error] = [each["error"] for each in suite.records()]
    assert error.startswith("exception: JSONDecodeError (")
    assert "parsing.py:4): Extra data" in error
    assert str(tmp_path) not in error


def test_systems_tiers_and_prompts_may_be_called_anything(tmp_path: Path) -> None:
    names = ["", " ", "a", "a ", "é", "e\u0301", "--by", "{x}", "../a", "=1+1", "a\nb"]
    systems = [{"name": name, "python": "agent.py:add"} for name in names]
    texts = [{"name": name, "prompt": "{Question}"} for name in names]
    rows = [{"id": name, "Question": "1+1", "Gold Answer": "2"} for name in ("", "007", "7")]
    for field, key in (("variant", "prompts"), ("tier", "tiers")):
        folder = tmp_path / key
        folder.mkdir()
        suite = make_suite(
            folder, rows, "rows.jsonl", map={"input": "Question", "target": "Gold Answer"}
        )
        if key == "prompts":
            del suite.suite["prompt"]
        suite = suite.write(systems=systems, **{key: texts})
        result = suite.run()
        assert result.exit_code == 0, result.output
        found = {(each["id"], each["model"], each[field]) for each in suite.records()}
        assert len(found) == len(suite.records()) == len(rows) * len(names) ** 2
        assert {model for _, model, _ in found} == set(names)


@pytest.mark.parametrize("name", ["target", "input", "reference", "Gold Anser", "task.solution"])
def test_a_field_that_no_task_has_is_told_before_the_first_call(name: str, tmp_path: Path) -> None:
    checks = [{"expect": "right", "equals": f"{{{name}}}"}]
    row = {"Question": "1+1", "Gold Answer": "2"}
    suite = make_suite(tmp_path, [row], "rows.jsonl", prompt="{Question}", checks=checks)
    result = suite.run()
    assert result.exit_code == 2
    assert f"names {{{name}}}, and the task 1 has none" in result.stderr
    records = tmp_path / "records.jsonl"
    records.write_text(json.dumps(row | {"id": "1", "answer": "2"}))
    written = tmp_path / "checks.json"
    written.write_text(json.dumps(checks))
    told = refused("score", records, "--checks", written)
    assert f"a check names {{{name}}}: no record has a value in {name}" in told
