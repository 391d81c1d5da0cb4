"""Metric settings in files: `run`, `gate`, `score`, `report` and the dashboard give one number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import calipers as cal
from calipers.dashboard.selection import Query
from calipers.dashboard.site import Site
from calipers.support.errors import UsageError
from tests.commands import refused, run
from tests.files import write_lines

AGENT = """
def answer(record):
    number = int(record["id"][1:])
    return {"observed_behaviors": ["greets", "names"] if number < 6 else ["greets"] * (number < 11)}
"""
STRICT, HALF = 6 / 14, 11 / 14  # all behaviors observed, or at least half of them
RULES = {"thresholds": {"blocking": {"pass_rate": 70}}}


def write_suite(folder: Path, *, suite: Any = None, policy: Any = None) -> Path:
    """A suite of 14 scenarios, of which 6 pass fully and 11 by half."""
    folder.mkdir(parents=True, exist_ok=True)
    behaviors = ["greets", "names"]
    write_lines(
        folder / "tasks.jsonl",
        [{"id": f"t{n}", "input": "?", "expected_behaviors": behaviors} for n in range(14)],
    )
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    (folder / "policy.yaml").write_text(
        yaml.safe_dump({**RULES, **({"metric_settings": policy} if policy else {})}),
        encoding="utf-8",
    )
    said = {
        "name": "half",
        "data": "tasks.jsonl",
        "systems": [{"name": "agent", "python": "agent.py:answer"}],
        "policy": "policy.yaml",
        "trust": ["observed_behaviors"],
        **({"metric_settings": suite} if suite else {}),
    }
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(said, sort_keys=False), encoding="utf-8")
    return path


def seen_in_the_dashboard(folder: Path) -> float | None:
    """The pass rate of the records, measured as a page that is filtered measures it."""
    site = Site(folder.parent)
    [entry] = [each for each in site.catalog.list_entries() if each.is_run]
    opened = site.indexes.open(entry, wait=30)
    assert opened.complete
    passed = opened.index.read_column("passed").sum()
    assert passed == round(14 * HALF)
    score = site.measuring.score(opened, Query(), entry.name)
    site.close()
    return score.groups[0].metrics["pass_rate"].value


@pytest.mark.parametrize("place", ["suite", "policy"])
def test_every_command_gives_the_number_of_the_files(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    suite = write_suite(tmp_path, **{place: {"pass-score": 0.5}})
    folder = tmp_path / "out"
    result = cal.run(suite, folder)
    journal, policy = folder / "records.jsonl", tmp_path / "policy.yaml"
    assert result.score is not None
    assert result.gate is not None
    flagged = run("score", journal, "--pass-score", "0.5", "--format", "json")
    decided = run("gate", journal, "--policy", policy, "--format", "json")
    values = {
        "run": result.score.groups[0].metrics["pass_rate"].value,
        "run's gate": result.gate.checks[0].value,
        "gate": json.loads(decided.stdout)["checks"][0]["value"],
        "score with the flag": json.loads(flagged.stdout)["groups"][0]["metrics"]["pass_rate"][
            "value"
        ],
        "report": cal.report(folder).score.groups[0].metrics["pass_rate"].value,
        "report with the policy": cal.report(folder, policy=policy)
        .score.groups[0]
        .metrics["pass_rate"]
        .value,
        "dashboard": seen_in_the_dashboard(folder),
    }
    assert values == dict.fromkeys(values, pytest.approx(HALF))
    assert decided.exit_code == 0


def test_the_records_of_a_run_are_scored_as_it_scored_them(tmp_path: Path) -> None:
    cal.run(write_suite(tmp_path, suite={"pass_score": 0.5}), tmp_path / "out")
    score = cal.score(tmp_path / "out" / "records.jsonl")
    assert score["pass_rate"].value == pytest.approx(HALF)
    said = "measured by the metric settings of the suite of the run: pass_score: 0.5"
    assert said in score.notices


def test_without_settings_every_behavior_is_asked_for(tmp_path: Path) -> None:
    result = cal.run(write_suite(tmp_path), tmp_path / "out")
    assert result.gate is not None
    assert result.gate.checks[0].value == pytest.approx(STRICT)
    assert result.gate.verdict == "fail"


def test_a_flag_wins_and_says_so(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, policy={"pass_score": 0.5})
    cal.run(suite, tmp_path / "out")
    journal = tmp_path / "out" / "records.jsonl"
    policy = tmp_path / "policy.yaml"
    decided = run("gate", journal, "--policy", policy, "--set", "pass_score=1", "--format", "json")
    assert json.loads(decided.stdout)["checks"][0]["value"] == pytest.approx(STRICT)
    assert f"--set pass_score=1.0 takes precedence over 0.5 in {policy}" in decided.stderr


def test_a_policy_wins_over_the_suite_and_says_so(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, suite={"pass_score": 1}, policy={"pass_score": 0.5})
    result = cal.run(suite, tmp_path / "out")
    assert result.gate is not None
    assert result.gate.checks[0].value == pytest.approx(HALF)
    assert any("takes precedence over 1.0 in the suite" in each for each in result.notices)


def test_another_policy_brings_its_own_settings(tmp_path: Path) -> None:
    cal.run(write_suite(tmp_path, policy={"pass_score": 0.5}), tmp_path / "out")
    other = {**RULES, "metric_settings": {"missing": "renormalize"}}
    decided = cal.gate(tmp_path / "out" / "records.jsonl", policy=other)
    assert decided.checks[0].value == pytest.approx(STRICT)


@pytest.mark.parametrize(
    ("settings", "problem", "fix"),
    [
        ({"pass_scor": 0.5}, "pass_scor is not a metric option", "did you mean pass_score?"),
        ({"pass_score": 2}, "pass_score=2: must be above 0 and at most 1", "0.5 for half"),
        ({"pass_score": "x"}, "expected a number, not str", "--set pass_score"),
        ({"missing": "drop"}, "missing=drop: no such choice", "zero or renormalize"),
        (
            {"bins": 4, "confidence": 0.9},
            "confidence is not a metric option",
            "did you mean consensus?",
        ),
    ],
)
@pytest.mark.parametrize("place", ["suite", "policy"])
def test_a_mistake_names_its_line(
    place: str, settings: dict[str, Any], problem: str, fix: str, tmp_path: Path
) -> None:
    suite = write_suite(tmp_path, **{place: settings})
    with pytest.raises(UsageError) as error:
        cal.run(suite, tmp_path / "out")
    assert problem in error.value.message
    assert f"{place}.yaml:" in error.value.message
    assert fix in error.value.fix
    assert not (tmp_path / "out").exists()


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "suite"
    suite = write_suite(folder, suite={"optimal_tools": "tools.json"})
    (folder / "tools.json").write_text('{"*": "search"}', encoding="utf-8")
    result = cal.run(suite, tmp_path / "out")
    assert result.score is not None
    assert result.score.settings["optimal_tools"] == str(folder / "tools.json")
    monkeypatch.chdir(
        tmp_path / "out"
    )  # the folder of a run knows the way from wherever it is read
    again = cal.score("records.jsonl")
    assert Path(again.settings["optimal_tools"]).resolve() == (folder / "tools.json").resolve()


def test_a_file_that_is_not_there_is_named_before_anything_is_called(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, suite={"prices": "none.yaml"})
    assert "none.yaml: No such file" in refused("run", suite, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_changed_settings_measure_the_same_answers_anew(tmp_path: Path) -> None:
    cal.run(write_suite(tmp_path), tmp_path / "out")
    again = cal.run(write_suite(tmp_path, suite={"pass_score": 0.5}), tmp_path / "out")
    assert (again.new, again.reused) == (0, 14)
    assert again.gate is not None
    assert again.gate.checks[0].value == pytest.approx(HALF)
    assert any("metric_settings has changed" in each for each in again.notices)
