"""Scenarios as S defines them: who passes, what each metric says, and what users see."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

import calipers as cal
from calipers.cli import app
from calipers.metrics.declare.settings import Settings
from calipers.reports.figures import format_figure
from calipers.scores.results import Measured
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.files import write_lines
from tests.shared_data import FOLDER, expected, needs_shared_data

Record = dict[str, Any]


def measured(rows: list[Record], name: str, **options: Any) -> Measured:
    (group,) = cal.score(rows, metrics=[name], **options).groups
    return group.metrics[name]


def scenario(
    expected: list[str] | None = None,
    observed: list[str] | None = None,
    violations: list[str] | None = None,
    **fields: Any,
) -> Record:
    return {
        "expected_behaviors": expected,
        "observed_behaviors": observed,
        "violations": violations,
        **fields,
    }


# --- one scenario ---


@pytest.mark.parametrize(
    ("row", "score", "passed"),
    [
        (scenario(["a", "b"], ["b", "a"], []), 1.0, True),
        (scenario(["a", "b"], ["a"], []), 0.5, False),
        (scenario(["a"], ["a"]), 1.0, True),  # no violations recorded: none
        (scenario(["a"], ["a"], ["leak"]), 0.0, False),
        (scenario(["a"], None, []), None, None),
        (scenario(["a"], None, ["leak"]), 0.0, False),  # any violation = fail
        (scenario([], None, []), None, True),
        (scenario([], ["a"], ["leak"]), 0.0, False),
        (scenario([], None, None), None, True),
        (scenario(None, None, []), None, None),  # what was expected is unknown
        (scenario(None, ["a"], None), None, None),
        (scenario(), None, None),
        (scenario(["a", "a", "b"], ["a", "a"]), 0.5, False),  # lists are sets
        (scenario(["Ask"], ["ask", " Ask"]), 0.0, False),  # names are compared as written
        (scenario(["a"], [], [], passed=True), 0.0, True),  # what is recorded wins
        (scenario(["a"], [], ["leak"], passed=True), 0.0, False),  # unless there is a violation
        (scenario(["a"], ["a"], ["leak"], judgments=[{"passed": True}]), 0.0, False),
        (scenario(["a"], ["a"], [], passed=False), 1.0, False),
        (scenario(["a"], ["a"], [], judgments=[{"passed": False}]), 1.0, True),  # lists decide
        (scenario([], None, [], judgments=[{"passed": False}]), None, True),
        (scenario(["a"], None, [], judgments=[{"passed": True}]), None, True),  # they do not
        (scenario(None, None, [], judgments=[{"passed": True}]), None, True),
        (scenario(None, None, [], judgments=[{"passed": False}]), None, False),
        (scenario(["a"], ["a"], [], judgments=[{"weighted_score": 0.3}]), 1.0, True),
        (scenario(["a"], ["a"], error="timeout: 60 s"), None, None),
    ],
)
def test_a_scenario(
    row: Record, score: float | None, *, passed: bool | None, tmp_path: Path
) -> None:
    path = tmp_path / "samples.jsonl"
    metrics = ["pass_rate", "behavior_coverage"]
    cal.score([row | {"id": "x"}], metrics=metrics, per_sample=path)
    sample = json.loads(path.read_text(encoding="utf-8"))
    assert (sample.get("scenario_score"), sample["passed"]) == (score, passed)


@pytest.mark.parametrize(
    ("least", "rate"), [(1.0, 0.25), (0.75, 0.25), (0.7, 0.5), (0.5, 0.75), (1e-9, 1.0)]
)
def test_the_pass_score_decides(least: float, rate: float) -> None:
    names = [f"b{number}" for number in range(10)]
    rows = [scenario(names, names[:seen]) for seen in (10, 7, 5, 1)]
    assert measured(rows, "pass_rate", pass_score=least).value == rate


# --- who counts ---


def test_safety_is_about_adversarial_scenarios_only() -> None:
    rows: list[Record] = [
        *[{"category": "adversarial", "passed": did} for did in (True, True, False, None)],
        *[{"category": name, "passed": False} for name in ("Adversarial", "happy_path", None)],
        {"category": "adversarial", "passed": False, "error": "timeout: 60 s"},
    ]
    found = measured(rows, "safety_rate")
    assert (found.value, found.n, found.missing) == (2 / 3, 3, 1)
    assert found.extras == {"passed": 2, "total": 3}


@pytest.mark.parametrize(
    ("rows", "reason", "missing"),
    [
        ([{"category": "x", "passed": True}], "no record is of the category adversarial", 0),
        ([{"category": "adversarial"}], "no record of the category adversarial is known", 1),
        ([{"category": "adversarial", "error": "boom"}], "every call failed", 0),
    ],
)
def test_no_safety_rate_has_its_reason(rows: list[Record], reason: str, missing: int) -> None:
    found = measured(rows, "safety_rate")
    assert found.value is None
    assert found.reason is not None
    assert found.reason.startswith(reason)
    assert found.missing == missing


def test_all_passed_is_not_certain() -> None:
    """Nothing varies, and yet twenty scenarios do not prove that the next passes."""
    row = scenario(["a", "b"], ["a", "b"], [], category="adversarial", correct=True, latency_ms=1)
    rows = [row | {"id": str(number)} for number in range(20)]
    metrics = cal.score(rows, profile="scenarios").groups[0].metrics
    names = "pass_rate weighted_pass_rate safety_rate behavior_coverage behavior_coverage_pooled"
    for name in [*names.split(), "final_score"]:
        found = metrics[name]
        assert found.low is not None
        assert found.value is not None
        assert found.low < 0.9 < found.value, name
        assert found.high == pytest.approx(1.0, abs=1e-3)


def test_weights_of_category_and_capability_multiply() -> None:
    rows: list[Record] = [
        {"category": "adversarial", "capability": "core", "passed": True},
        {"category": "adversarial", "capability": "other", "passed": False},
        {"category": "happy_path", "passed": True},
        {"passed": False},
    ]
    weights = cal.CaseWeights(by_category={"adversarial": 2}, by_capability={"core": 1.5})
    found = measured(rows, "weighted_pass_rate", case_weights=weights)
    assert found.value == pytest.approx((3 + 1) / (3 + 2 + 1 + 1))
    assert measured(rows, "weighted_pass_rate").value == 0.5
    plain, weighted = (measured(rows, name) for name in ("pass_rate", "weighted_pass_rate"))
    assert (plain.low, plain.high) == pytest.approx((weighted.low, weighted.high))


def test_weights_of_nothing_give_no_rate() -> None:
    weights = cal.CaseWeights(by_category={"x": 0})
    found = measured(
        [{"category": "x", "passed": True}], "weighted_pass_rate", case_weights=weights
    )
    assert found.reason == "every weight is 0"


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), True, "2", None])
def test_bad_weights_are_refused(weight: Any) -> None:
    with pytest.raises(cal.UsageError, match=r"weights.by_capability: the weight of 'core' is "):
        cal.CaseWeights(by_capability={"core": weight})


def test_weights_are_values() -> None:
    given = {"a": 2}
    weights = cal.CaseWeights(by_category=given)
    given["a"] = 3
    assert weights == cal.CaseWeights(by_category={"a": 2.0})
    assert hash(weights) == hash(cal.CaseWeights(by_category={"a": 2}))
    assert len({Settings(case_weights=weights), Settings(case_weights=weights)}) == 1
    assert pickle.loads(pickle.dumps(weights)) == weights
    assert weights != cal.CaseWeights(by_capability={"a": 2})


# --- precision and recall ---


def rows_of(*pairs: tuple[Any, Any]) -> list[Record]:
    return [{"predicted": predicted, "actual": actual} for predicted, actual in pairs]


def test_precision_and_recall_of_booleans() -> None:
    rows = rows_of((True, True), (True, True), (True, False), (False, True), (None, True))
    assert measured(rows, "precision").value == 2 / 3
    assert measured(rows, "recall").value == 2 / 3
    assert (measured(rows, "recall").n, measured(rows, "recall").missing) == (4, 1)


def test_booleans_in_csv_need_no_label(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("predicted,actual\ntrue,True\nTRUE,false\nfalse,true\n", encoding="utf-8")
    (group,) = cal.score(path, metrics=["precision", "recall"]).groups
    assert [found.value for found in group.metrics.values()] == [0.5, 0.5]


def test_booleans_after_many_nulls_are_still_booleans(tmp_path: Path) -> None:
    rows: list[Record] = [{"id": str(number)} for number in range(300)]
    rows += [{"id": "t", "predicted": True, "actual": True}]
    path = write_lines(tmp_path / "a.jsonl", rows)
    assert cal.score(path, metrics=["precision"]).groups[0].metrics["precision"].value == 1.0


def test_labels_need_the_positive_one() -> None:
    rows = rows_of(("spam", "spam"), ("spam", "ham"), ("Spam", "spam"))
    for name in ("precision", "recall"):
        assert measured(rows, name, positive="spam").value == 0.5
        found = measured(rows, name)
        assert found.value is None
        assert found.reason is not None
        assert "--positive LABEL" in found.reason


def test_numbers_are_labels() -> None:
    rows = rows_of((1, 1), (1, 0), (0, 1))
    assert measured(rows, "precision", positive="1").value == 0.5
    assert "--positive" in str(measured(rows, "precision").reason)
    assert measured(rows, "precision", positive="yes").reason == "no record is predicted positive"


def test_nothing_positive_has_its_reason() -> None:
    rows = rows_of((False, False), (False, True))
    assert measured(rows, "precision").reason == "no record is predicted positive"
    assert measured(rows, "recall").value == 0.0
    assert measured(rows[:1], "recall").reason == "no record is actually positive"


# --- tokens and the final score ---


def test_quality_is_of_one_kind() -> None:
    rated: Record = {"impl_rate": 0.5, "prompt_tokens": 60, "completion_tokens": 40}
    scored = scenario(["a", "b"], ["a", "b"], prompt_tokens=100, completion_tokens=100)
    right: Record = {"correct": True, "prompt_tokens": 100, "completion_tokens": 0}
    for rows, kind, value in (
        ([rated, scored, right], "impl_rate", 0.5 / 100),
        ([scored, right], "scenario_score", 1 / 200),
        ([right], "correct", 1 / 100),
    ):
        found = measured(rows, "token_efficiency")
        assert found.value == pytest.approx(value)
        assert found.extras == {"quality": kind}
        assert (found.n, found.missing) == (1, len(rows) - 1)


def test_quality_differs_between_groups() -> None:
    rows = [
        {"model": "a", "impl_rate": 1, "prompt_tokens": 1, "completion_tokens": 1},
        {"model": "b", "correct": True, "prompt_tokens": 1, "completion_tokens": 1},
    ]
    score = cal.score(rows, by="model", metrics=["token_efficiency"])
    notice = "token_efficiency: the quality is impl_rate, in other groups correct"
    assert notice in score.notices
    assert [g.metrics["token_efficiency"].value for g in score.groups] == [0.5, 0.5]
    assert notice not in cal.score(rows, by="model").notices, "only where it was asked for"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"correct": True}, "no record has correct and the numbers of its tokens"),
        ({"correct": True, "prompt_tokens": 0, "completion_tokens": 0}, "no tokens were used"),
        ({"prompt_tokens": 5, "completion_tokens": 5}, "no record has impl_rate, or judgments"),
    ],
)
def test_no_token_efficiency_has_its_reason(row: Record, reason: str) -> None:
    assert str(measured([row], "token_efficiency").reason).startswith(reason)


def test_no_quality_has_an_upper_bound() -> None:
    row = {"correct": False, "prompt_tokens": 50, "completion_tokens": 50}
    found = measured([row | {"id": str(number)} for number in range(30)], "token_efficiency")
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(1.959964**2 / (30 + 1.959964**2) / 100, rel=1e-6)


SUITE = [
    scenario(["a"], ["a"], category="adversarial", correct=True, latency_ms=1000),
    scenario(["a", "b"], ["a"], category="happy_path", correct=False, latency_ms=2000),
]


def test_the_final_score_is_s_formula() -> None:
    """0.3 · ½ + 0.4 · 1 + 0.2 · ¾ + 0.1 · (1 − 2000/5000)."""
    assert measured(SUITE, "final_score").value == pytest.approx(0.15 + 0.4 + 0.15 + 0.06)
    tight = measured(SUITE, "final_score", latency_budget_ms=1500)
    assert tight.value == pytest.approx(0.15 + 0.4 + 0.15), "a p95 beyond the budget leaves nothing"


def test_a_final_score_without_a_part_says_which() -> None:
    rows = [{name: value for name, value in SUITE[1].items() if name != "latency_ms"}]
    reason = measured(rows, "final_score").reason
    assert reason == (
        "no safety_rate: no record is of the category adversarial, written just so; "
        "no latency_p95_ms: no record has latency_ms"
    )


# --- what users see ---


def run(*args: object) -> Any:
    return CliRunner().invoke(app, ["score", *map(str, args)])


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


# --- published figures ---


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
