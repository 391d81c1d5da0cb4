"""Suite files: the contract's example loads, and mistakes are named with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from calipers.runs.suite import Suite, read_suite
from calipers.support.errors import UsageError

CONTRACT = """\
name: arithmetic
data: arithmetic.jsonl
prompt: "{input}\\nThink step by step. End with: ANSWER: <answer>"
answer: {after: "ANSWER:"}
systems:
  - name: mini
    model: openai:gpt-4o-mini
    base_url: http://127.0.0.1:8000/v1
    api_key_env: OPENAI_API_KEY
    settings: {temperature: 0, max_tokens: 512}
    price: {input: 0.15, output: 0.60}
  - name: solver
    python: solver.py:answer
  - name: agent
    command: [python, agent.py]
tiers:
  - {name: T0, prompt: "{input}"}
runs: 10
concurrency: 32
retries: 5
timeout_seconds: 120
budget_usd: 5.00
judges:
  - {name: reviewer, model: openai:gpt-4o-mini, rubric: technical_accuracy}
policy: policy.yaml
"""
LEAST = "name: a\ndata: a.jsonl\nsystems:\n  - {name: s, python: s.py:f}\n"


def read(folder: Path, text: str) -> Suite:
    path = folder / "suite.yaml"
    path.write_text(text, encoding="utf-8")
    return read_suite(path)


def test_the_contracts_example(tmp_path: Path) -> None:
    suite = read(tmp_path, CONTRACT)
    assert [system.name for system in suite.systems] == ["mini", "solver", "agent"]
    assert suite.systems[0].price is not None
    assert suite.systems[0].price.output == 0.6
    assert suite.systems[2].command == ["python", "agent.py"]
    assert (suite.runs, suite.budget_usd, suite.judges[0].rubric) == (10, 5.0, "technical_accuracy")


def test_the_defaults_are_the_contracts(tmp_path: Path) -> None:
    suite = read(tmp_path, LEAST)
    assert (suite.runs, suite.concurrency, suite.retries) == (1, 32, 5)
    assert (suite.timeout_seconds, suite.budget_usd, suite.policy) == (120.0, None, None)


@pytest.mark.parametrize(
    ("old", "new", "line", "message", "fix"),
    [
        ("    model: openai", "    mdel: openai", 7, "systems.0: mdel is not a known key", "model?"),
        ("runs: 10", "runs: 0", 18, "runs should be greater", "calipers schema suite"),
        ("runs: 10", "runs: 2.5", 18, "runs is not a whole number", "calipers schema suite"),
        ("runs: 10", "run: 10", 18, "run is not a known key", "runs?"),
        ("solver.py:answer", "solver.py", 13, "is not FILE.py:FUNCTION", "solver.py:answer"),
        ("- name: agent", "- name: mini", 14, "two systems are called mini", "rename"),
        ('{after: "ANSWER:"}', '{regex: "("}', 4, "no regular expression", "(.*)"),
        ('{after: "ANSWER:"}', '{regex: "x"}', 4, "no group holds the answer", "(.*)"),
        ('{after: "ANSWER:"}', "{}", 4, "either after or regex", "ANSWER:"),
        ("input: 0.15", "input: -1", 11, "systems.0.price.input should be", "schema suite"),
        ("output: 0.60", "output: .inf", 11, "finite number", "schema suite"),
        ("[python, agent.py]", "python agent.py", 15, "command is not a list", "schema suite"),
        ("model: openai:gpt-4o-mini\n    base", "model: gpt-4o\n    base", 7, "not name a provider", "openai:gpt-4o"),
        ("    command: [python, agent.py]\n", "", 14, "says nothing of what to call", "command"),
        ("    python: solver.py:answer", "    python: a.py:f\n    model: a:b", 12, "has model and python", "one of"),
        ("    python: solver.py:answer", "    python: a.py:f\n    base_url: http://x/v1", 14, "base_url is for models", "leave"),
        ("rubric: tech", "rubrik: tech", 24, "judges.0: rubrik is not a known key", "rubric?"),
        ("name: arithmetic\n", "", None, "name is missing", "calipers init"),
    ],
)  # fmt: skip
def test_mistakes(
    old: str, new: str, line: int | None, message: str, fix: str, tmp_path: Path
) -> None:
    assert old in CONTRACT
    with pytest.raises(UsageError) as raised:
        read(tmp_path, CONTRACT.replace(old, new, 1))
    where = tmp_path / "suite.yaml"
    assert raised.value.message.startswith(f"{where}:{line}: " if line else f"{where}: ")
    assert message in raised.value.message
    assert fix in raised.value.fix


def test_a_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="never the key") as raised:
        read(tmp_path, CONTRACT.replace("OPENAI_API_KEY", "sk-secret-0123456789"))
    assert "secret" not in str(raised.value)
