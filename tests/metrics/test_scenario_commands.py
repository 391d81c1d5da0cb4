"""What users see of scenarios: profile, options, mistakes, published figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.reports.number_format import format_figure
from tests import commands
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.files import write_lines
from tests.metrics.scenarios_at_hand import SUITE, scenario
from tests.shared_data import FOLDER, expected, needs_shared_data


def run(*args: object) -> Any:
    return commands.run("score", *args)


def test_the_profile_reads_as_the_document(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", SUITE)
    found = json.loads(run(path, "--profile", "scenarios", "--format", "json").stdout)
    order = "pass_rate accuracy precision recall safety_rate behavior_coverage"
    order += " behavior_coverage_pooled latency_p95_ms token_efficiency weighted_pass_rate"
    names = found["groups"][0]["metrics"]
    assert [name for name in names if name in order.split()] == order.split()
    shown = run(path, "--profile", "scenarios")
    assert shown.exit_code == 0
    assert "precision, recall (no record has predicted and actual)" in shown.stdout


def test_without_a_profile_the_fields_decide() -> None:
    found = set(cal.score(SUITE).groups[0].metrics)
    assert {"pass_rate", "safety_rate", "behavior_coverage", "final_score"} <= found
    assert not {"precision", "recall", "token_efficiency"} & found
    graded = cal.score([{"category": "algebra", "passed": True}]).groups[0].metrics
    assert "safety_rate" not in graded, "nothing is adversarial, and nobody asked"
    assert "behavior_coverage" not in graded


def test_by_category(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", SUITE)
    result = run(path, "--profile", "scenarios", "--by", "category", "--format", "json")
    groups = json.loads(result.stdout)["groups"]
    assert [group["by"]["category"] for group in groups] == ["adversarial", "happy_path"]
    assert [group["metrics"]["pass_rate"]["value"] for group in groups] == [1.0, 0.0]
    assert groups[0]["metrics"]["safety_rate"] | {"low": 0, "high": 0} == {
        "value": 1.0,
        "low": 0,
        "high": 0,
        "stderr": None,
        "interval": "wilson",
        "n": 1,
        "missing": 0,
        "reason": None,
        "passed": 1,
        "total": 1,
    }


def test_options_stand_in_the_output(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", SUITE)
    asked = ("--pass-score", "0.5", "--positive", "x", "--latency-budget", "900")
    settings = json.loads(run(path, *asked, "--format", "json").stdout)["settings"]
    assert settings["pass_score"] == 0.5
    assert settings["positive"] == "x"
    assert settings["latency_budget_ms"] == 900
    assert settings["case_weights"] is None
    weights = cal.CaseWeights(by_category={"adversarial": 2})
    score = json.loads(cal.score(path, case_weights=weights).to_json())
    assert score["settings"]["case_weights"] == {
        "by_category": {"adversarial": 2.0},
        "by_capability": {},
    }


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--pass-score", value) for value in ("0", "-1", "1.5", "nan")),
        *(("--latency-budget", value) for value in ("0", "-5", "inf", "nan")),
    ],
)
def test_settings_out_of_range_are_refused(option: str, value: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", SUITE)
    result = run(path, option, value)
    assert result.exit_code == 2
    assert option in result.stderr


def test_a_bad_list_names_file_row_and_field(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [*SUITE, scenario(["a"], violations=[1])])  # type: ignore[list-item]
    result = run(path, "--profile", "scenarios")
    assert result.exit_code == 2
    assert f"{path}:3: violations: [1] is not a list of texts" in result.stderr


def test_scenarios_can_be_compared() -> None:
    base = [SUITE[number % 2] | {"id": str(number), "run": 0} for number in range(40)]
    better = [SUITE[number % 8 == 7] | {"id": str(number), "run": 0} for number in range(40)]
    [pair] = cal.compare(base, better, profile="scenarios").pairs
    assert pair.metrics["pass_rate"].difference == pytest.approx(0.375)
    assert pair.metrics["final_score"].difference is not None
    assert pair.metrics["final_score"].difference > 0


def test_small_values_keep_their_digits() -> None:
    assert format_figure(0.000312345) == "0.0003123"
    assert format_figure(0.0) == "0"
    assert format_figure(3.1e-4, 2.9e-4, 3.3e-4) == "0.000310 ± 0.000020"
    assert format_figure(3e-7, 2.9e-7, 3.1e-7) == "3.00e-07 ± 1.00e-08"


@needs_shared_data
@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_xstest(engine: str) -> None:
    """Röttger et al. (2024): full compliance with safe prompts, full refusal of unsafe ones."""
    path = FOLDER / "scenarios/xstest_refusals.jsonl"
    options: dict[str, Any] = {"metrics": ["pass_rate", "safety_rate"], "engine": engine}
    whole = {g.by["model"]: g.metrics for g in cal.score(path, by="model", **options).groups}
    parts = cal.score(path, by=["model", "category"], **options).groups
    by_category = {(g.by["model"], g.by["category"]): g.metrics for g in parts}
    figures = expected()["scenarios"]["xstest_refusals.jsonl"]
    assert {each["model"] for each in figures} == set(whole)
    for each in figures:
        model = each["model"]
        assert whole[model]["pass_rate"].value == pytest.approx(each["pass_rate"], abs=1e-12)
        safety = whole[model]["safety_rate"]
        assert safety.value == pytest.approx(each["unsafe_full_refusal"], abs=1e-12)
        assert (safety.n, safety.missing) == (200, 0)
        safe = by_category[model, "happy_path"]
        assert safe["pass_rate"].value == pytest.approx(each["safe_full_compliance"], abs=1e-12)
        assert safe["safety_rate"].value is None


@needs_shared_data
def test_refusals_found_by_matching_strings() -> None:
    """A partial refusal is one; the string matcher knows only full ones."""
    refusal = pl.col("final_label", "strmatch_label") != "1_full_compliance"
    rows = cal.read(FOLDER / "scenarios/xstest_refusals.jsonl").with_columns(refusal)
    names = {"predicted": "strmatch_label", "actual": "final_label"}
    groups = cal.score(rows, by="model", metrics=["precision", "recall"], map=names).groups
    found = {group.by["model"]: group.metrics for group in groups}
    for each in expected()["scenarios"]["xstest_refusals.jsonl"]:
        for name in ("precision", "recall"):
            value = found[each["model"]][name].value
            assert value == pytest.approx(each[f"strmatch_refusal_{name}"], abs=1e-12)


@needs_shared_data
@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_jailbreakbench(engine: str) -> None:
    """Chao et al. (2024): an attack's success rate is what safety lacks."""
    path = FOLDER / "scenarios/jailbreakbench_labels.jsonl"
    by = ["attack", "attack_type", "model"]
    groups = cal.score(path, by=by, profile="scenarios", engine=engine).groups
    found = {tuple(group.by.values()): group.metrics["safety_rate"] for group in groups}
    figures = expected()["scenarios"]["jailbreakbench_labels.jsonl"]
    assert len(found) == len(figures)
    for each in figures:
        safety = found[each["attack"], each["attack_type"], each["model"]]
        assert safety.value == pytest.approx(1 - each["published_attack_success_rate"], abs=1e-12)
        assert safety.extras == {
            "passed": round(100 * (1 - each["published_attack_success_rate"])),
            "total": each["n"],
        }
