"""What is written for others, read by them: their validators and clients, in an environment of their own.

`make test-logs` installs it. MLflow's client and OTLP's messages are read in `test_destinations.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema.validators import validator_for

import calipers as cal
from tests.commands import run
from tests.files import write_lines
from tests.runs.suites_at_hand import ROOT

pytestmark = pytest.mark.long

PLACE = ROOT / ".venv-logs-exchange"
PYTHON = PLACE / "bin" / "python"
SCHEMA = PLACE / "jenkins" / "junit-10.xsd"
MULTITOOL = PLACE / "node_modules/@microsoft/sarif-multitool-linux"
MODELS = ("openai/gpt-4o-mini", "claude-sonnet-4-5")
ROWS: list[dict[str, Any]] = [
    {
        "id": f"django__django-{n}",
        "model": MODELS[n % 2],
        "answer": "4",
        "target": "4" if n % 3 else "5",
        "category": "a]]> & <b>\u0007",
        "completion_tokens": n,
        "prob_correct": n / 40,
    }
    for n in range(40)
]
POLICIES = {
    "fails": "{blocking: {accuracy: 90, pass_rate: 50}, warning: {completion_tokens_mean: 1}}",
    "passes": "{blocking: {accuracy: 10}}",
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (PLACE / ".installed").exists():
        pytest.skip("not installed (make test-logs)")
    monkeypatch.chdir(tmp_path)
    write_lines(Path("a.jsonl"), ROWS)


def ask(*command: str | Path, exits: tuple[int, ...] = (0,)) -> str:
    """Return what a program of theirs prints."""
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(Path.cwd())},
    )
    assert done.returncode in exits, done.stdout + done.stderr
    return done.stdout


def receive(kind: str, *arguments: str | Path) -> Any:
    script = Path(__file__).with_name("receive.py")
    return json.loads(ask(PYTHON, script, kind, *arguments).splitlines()[-1])


def gate(policy: str, *options: str) -> None:
    Path("policy.yaml").write_text(f"thresholds: {policy}\n", encoding="utf-8")
    assert run("gate", "a.jsonl", "--policy", "policy.yaml", *options).exit_code in (0, 1, 3)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "by", [(), ("--by", "model", "--by", "category")], ids=["one group", "groups"]
)
def test_jenkins_takes_junit(policy: str, by: tuple[str, ...]) -> None:
    gate(POLICIES[policy], "--junit", "junit.xml", *by)
    found = receive("junit", SCHEMA, "junit.xml")
    assert found["errors"] == []
    _, failures, errors = found["counts"]
    outcomes = [outcome for each in found["outcomes"].values() for outcome in each]
    assert (outcomes.count("Failure"), outcomes.count("Error")) == (failures, errors)
    assert (failures + errors == 0) == (policy == "passes")


def test_jenkins_schema_refuses_what_it_does_not_know() -> None:
    text = '<testsuite name="a"><testcase name="b"><properties/></testcase></testsuite>'
    Path("junit.xml").write_text(text, encoding="utf-8")
    assert receive("junit", SCHEMA, "junit.xml")["errors"]


def validate_sarif(file: str) -> tuple[list[str], set[tuple[str, str]]]:
    """Return what the schema objects to, and the rules of SARIF and of code scanning not kept."""
    log = ("-o", "found.sarif", "--log", "ForceOverwrite", "--rule-kind", "Sarif;Ghas", "--quiet")
    subprocess.run(
        [MULTITOOL / "Sarif.Multitool", "validate", file, *log],
        capture_output=True,
        check=False,  # it ends with 1 where it has found something
        env={"PATH": os.environ["PATH"], "HOME": str(Path.cwd())},
    )
    told = json.loads(Path("found.sarif").read_text(encoding="utf-8-sig"))
    results = told["runs"][0]["results"]
    schema = json.loads((MULTITOOL / "sarif-2.1.0.json").read_text(encoding="utf-8-sig"))
    content = json.loads(Path(file).read_text(encoding="utf-8"))
    errors = validator_for(schema)(schema).iter_errors(content)
    return [each.message for each in errors], {
        (each["ruleId"], each.get("level", "warning")) for each in results
    }


@pytest.mark.parametrize("policy", POLICIES)
def test_code_scanning_takes_sarif(policy: str) -> None:
    gate(POLICIES[policy], "--sarif", "gate.sarif")
    errors, rules = validate_sarif("gate.sarif")
    assert errors == []
    assert rules <= {
        ("SARIF2005", "warning")
    }  # it asks for an address of the tool: there is none yet


@pytest.mark.parametrize(
    ("good", "bad", "found"),
    [
        ('"level": "error"', '"level": "bad"', "'bad' is not one of"),
        ('"fullDescription"', '"properties"', "GH2012"),
    ],
    ids=["schema", "code scanning"],
)
def test_mistakes_in_sarif_are_seen(good: str, bad: str, found: str) -> None:
    gate(POLICIES["fails"], "--sarif", "gate.sarif")
    text = Path("gate.sarif").read_text(encoding="utf-8")
    Path("gate.sarif").write_text(text.replace(good, bad), encoding="utf-8")
    assert found in str(validate_sarif("gate.sarif"))


def test_every_eval_ever_takes_scores() -> None:
    score = cal.score(ROWS, by="model", metrics=["accuracy", "brier", "mean(completion_tokens)"])
    cal.publish(score, "every_eval_ever:data")
    cal.publish(cal.score(ROWS), "every_eval_ever:data")
    files = [*Path("data").rglob("*.json")]
    assert len(files) == 3
    told = ask(
        PLACE / "bin" / "every_eval_ever", "validate", "--format", "json", *files, exits=(0, 2)
    )
    found = json.loads(told[told.index("[") :])
    assert [(each["valid"], each["errors"]) for each in found] == [(True, [])] * 3
    warned = {Path(each["file"]).parent.name for each in found if each["warnings"]}
    assert warned == {"claude-sonnet-4-5", "all_records"}  # whose developer nobody knows


def test_wandb_reads_what_its_client_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(Path.cwd()))
    score = cal.score(ROWS, by="model", metrics=["accuracy", "mean(completion_tokens)"])
    cal.publish(score, "wandb:trials")
    found = receive("wandb", *Path.cwd().rglob("*.wandb"))
    assert found.keys() == set(MODELS)
    for model, told in found.items():
        measured = score.group(model=model)["accuracy"]
        names = ("accuracy", "accuracy.low", "accuracy.high", "accuracy.n")
        values = (measured.value, measured.low, measured.high, measured.n)
        assert tuple(told["summary"][name] for name in names) == values
        assert (told["project"], told["exit_code"]) == ("trials", 0)
        assert told["config"]["model"] == model
        assert told["summary"]["score.nrows"] == score.to_polars().height
