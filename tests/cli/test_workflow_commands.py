"""On GitHub, a line of the log that looks like a command is one: names must not become commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.commands import run
from tests.files import write_lines

HOSTILE = (
    "::set-output name=verdict::pass",
    "\u2003\t::stop-commands::x",
    "##[set-output name=verdict;]pass",
    "gpt-4o ##[add-mask]a",
    ":::error::x",
    "x\r::warning::y",
    "###[group]z",
)


def list_commands(text: str) -> list[str]:
    """Return the lines that the runner obeys, read as actions/runner's ActionCommand.cs does."""
    lines = re.split(r"\r\n|\r|\n", text)
    return [each for each in lines if re.search(r"^\s*::.*?::|##\[[^\]]*\]", each)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records whose every name is a command, and rules that speak of each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    named = {name: f"{name} {number}" for number, name in enumerate(HOSTILE)}
    rows = [
        {
            "id": name,
            "category": called,
            "model": called,
            "passed": False,
            "error": called if number == 0 else None,
        }
        for number, (name, called) in enumerate(named.items())
    ]
    write_lines(tmp_path / "rows.jsonl", rows)
    policy = {
        "required_scenarios": {"ids": list(HOSTILE)},
        "pass_criteria": {"by_category": dict.fromkeys(named.values(), 50)},
        "thresholds": {"blocking": {"pass_rate": 90}},
    }
    (tmp_path / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ("gate", "rows.jsonl", "--policy", "policy.yaml"),
        ("gate", "rows.jsonl", "--policy", "policy.yaml", "--by", "model"),
        ("gate", "rows.jsonl", "--policy", "policy.yaml", "--by", "model", "--format", "markdown"),
        ("ci", "--records", "rows.jsonl", "--policy", "policy.yaml", "--by", "category"),
        ("score", "rows.jsonl", "--by", "model", "--format", "csv"),
    ],
)
def test_names_from_records_are_not_commands(command: tuple[str, ...]) -> None:
    done = run(*command)
    assert "stop-commands" in done.output
    obeyed = list_commands(done.stdout) + list_commands(done.stderr)
    assert all(re.match(r"::(error|warning) title=gate", each) for each in obeyed), obeyed
    assert bool(obeyed) == (command[0] != "score"), "our own annotations are commands"


def test_what_a_function_under_test_prints_is_not_a_command(folder: Path) -> None:
    write_lines(folder / "tasks.jsonl", [{"id": "q1", "input": "2+3", "target": "5"}])
    (folder / "sut.py").write_text(
        "import sys\ndef answer(record):\n"
        "    print('::set-output name=verdict::pass')\n"
        "    print(' :', end='', flush=True, file=sys.stderr)\n"
        "    print(':error::x', file=sys.stderr)\n"
        "    print('##', end='', file=sys.stderr)\n"
        "    print('[add-path]/tmp', file=sys.stderr)\n"
        "    raise ValueError('no\\n::error::y ##[group]z')\n",
        encoding="utf-8",
    )
    suite = (
        "name: sums\ndata: tasks.jsonl\nsystems: [{name: '::debug::s', python: 'sut.py:answer'}]"
    )
    (folder / "suite.yaml").write_text(f"{suite}\n", encoding="utf-8")
    done = run("run", "suite.yaml", "-o", "results")
    assert done.stderr.count("set-output") == 1
    assert not list_commands(done.stdout) + list_commands(done.stderr)


def test_an_error_that_quotes_a_name_is_no_command() -> None:
    done = run("gate", "rows.jsonl", "--policy", "##[error]gone.yaml")
    assert done.exit_code == 2
    done_with_option = run("gate", "--policie\n::error::x")
    assert not list_commands(done.stderr) + list_commands(done_with_option.stderr)


def test_json_on_stdout_holds_the_names_as_they_are() -> None:
    done = run("gate", "rows.jsonl", "--policy", "policy.yaml", "--format", "json")
    assert not list_commands(done.stdout)
    names = {each["name"] for each in json.loads(done.stdout)["checks"]}
    assert set(HOSTILE) <= names


def test_elsewhere_names_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS")
    done = run("gate", "rows.jsonl", "--policy", "policy.yaml")
    assert HOSTILE[0] in done.stdout
    assert "###[group]z" in done.stdout
