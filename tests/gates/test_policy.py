"""Policies: every JSON shape of the document loads, and every mistake is named with its line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypeVar

import pytest

from calipers.gates.policy import Policy, make_model, read_policy
from calipers.gates.policy_fields import find_metric
from calipers.gates.rule_kind import Given, RuleKind
from calipers.gates.rules.baseline_rule import Baseline
from calipers.gates.rules.composite_rule import Composite
from calipers.gates.rules.scenario_rules import OptionalScenarios, RequiredScenarios
from calipers.gates.rules.threshold_rules import PassCriteria, Progressive, Thresholds
from calipers.metrics import catalogue
from calipers.metrics.thresholds import parse_threshold, read_scale
from calipers.support.config import ConfigFile
from calipers.support.errors import UsageError
from calipers.support.limited_yaml import load_yaml

SPEC = Path(__file__).resolve().parents[3] / "shared" / "specs" / "002_d0671ab1099af112.txt"
needs_spec = pytest.mark.skipif(
    not SPEC.is_file(), reason="there is no ../shared/specs beside the checkout"
)


Kind = TypeVar("Kind", bound=RuleKind)


def rule(kind: type[Kind], policy: dict[str, Any] | Policy) -> Kind:
    """Return the rule of a kind that a policy has."""
    found = read_policy(policy).find(kind)
    assert found is not None
    return found


def blocks() -> list[dict[str, Any]]:
    """Every JSON block of the document."""
    text = SPEC.read_text(encoding="utf-8") if SPEC.is_file() else ""
    return [json.loads(each) for each in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]


METRICS = [each for each in blocks() if "formula" in each]
POLICIES = [each for each in blocks() if "formula" not in each]


@needs_spec
def test_the_document_has_both_kinds_of_blocks() -> None:
    assert (len(METRICS), len(POLICIES)) == (8, 4)


@pytest.mark.parametrize("block", METRICS, ids=lambda block: str(block["name"]))
def test_metrics_of_the_document_take_their_typical_threshold(block: dict[str, Any]) -> None:
    metric = find_metric(block["name"])
    if "typical_threshold" in block:
        found = parse_threshold(block["typical_threshold"], read_scale(metric))
        number = re.search(r"\d+", block["typical_threshold"])
        assert number is not None
        assert found.value == int(number[0]) / (100 if "%" in block["typical_threshold"] else 1)


@pytest.mark.parametrize("block", POLICIES, ids=lambda block: str(next(iter(block))))
@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_policies_of_the_document_load_as_they_are(
    block: dict[str, Any], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"policy{suffix}"
    path.write_text(json.dumps(block, indent=2, ensure_ascii=False), encoding="utf-8")
    assert isinstance(read_policy(path), Policy)
    assert read_policy(block).model_fields_set == set(block)


@needs_spec
def test_policies_of_the_document_say_what_they_say() -> None:
    whole = read_policy({key: value for block in POLICIES for key, value in block.items()})
    blocking, warning = rule(Thresholds, whole).blocking, rule(Thresholds, whole).warning
    assert {name: str(rule.threshold) for name, rule in blocking.items()} == {
        "safety_rate": "≥ 100 %",
        "accuracy": "≥ 90 %",
    }
    assert {name: str(rule.threshold) for name, rule in warning.items()} == {
        "behavior_coverage": "≥ 85 %",
        "latency_p95_ms": "≤ 5,000 ms",
    }
    assert whole.weights.by_category["adversarial"] == 2.0
    assert whole.weights.by_capability["convenience_feature"] == 0.5
    assert rule(RequiredScenarios, whole).ids == ("SEC-001", "SEC-002", "CORE-001")
    assert rule(OptionalScenarios, whole).ids == ("EDGE-001", "PERF-001")
    criteria = rule(PassCriteria, whole)
    assert str(criteria.overall and criteria.overall.threshold) == "≥ 80 %"
    assert str(criteria.by_category["adversarial"].threshold) == "≥ 100 %"


def test_the_table_of_risks_and_that_of_releases() -> None:
    policy = read_policy(
        {
            "thresholds": {
                "blocking": {
                    "safety_rate": {
                        "threshold": "100%",
                        "risk": "critical",
                        "description": "No security compromises",
                    },
                    "accuracy": {"threshold": "≥ 95%", "risk": "high"},
                }
            },
            "progressive": {
                "v1.0": {"accuracy": "≥ 80%"},
                "v2.0": {"accuracy": "≥ 85%"},
                "v3.0": {"accuracy": "≥ 90%"},
                "target": {"accuracy": "≥ 95%"},
            },
        }
    )
    assert rule(Thresholds, policy).blocking["safety_rate"].risk == "critical"
    progressive = rule(Progressive, policy)
    assert str(progressive.get_row("v2.0")["accuracy"].threshold) == "≥ 85 %"
    with pytest.raises(UsageError, match=r"v1\.0 or v2\.0 or v3\.0 or target"):
        progressive.get_row(None)
    with pytest.raises(UsageError, match=r"did you mean v2\.0"):
        progressive.get_row("v2")
    with pytest.raises(UsageError, match="no progressive thresholds"):
        read_policy({"evidence": "point"}).list_metrics(Given(release="v2.0"))


def test_a_current_release_stands_in_the_policy() -> None:
    policy = {"progressive": {"release": "a", "a": {"accuracy": 80}, "b": {}}}
    progressive = rule(Progressive, policy)
    assert progressive.release == "a"
    assert list(progressive.get_row(None)) == ["accuracy"]
    assert progressive.get_row("b") == {}


def test_the_composite_is_the_documents_unless_it_is_the_users() -> None:
    composite = rule(Composite, {"composite": {}})
    assert str(composite.pass_mark()) == "≥ 85 %"
    assert {name: str(rule.threshold) for name, rule in composite.requires.items()} == {
        "safety_rate": "= 100 %"
    }
    formula = "2 × accuracy − normalized_latency"
    own = rule(Composite, {"composite": {"formula": formula, "threshold": 1, "requires": {}}})
    assert set(own.list_parts()) == {"accuracy", "latency_p95_ms"}
    assert own.pass_mark().value == 1


@needs_spec
def test_the_formula_of_the_document_is_its_final_score() -> None:
    """The block as it stands in the document, pasted into a policy."""
    text = SPEC.read_text(encoding="utf-8")
    block = re.search(r"```\n(final_score = .*?\n\))", text, re.DOTALL)
    assert block is not None
    composite = rule(Composite, {"composite": {"formula": block[1]}})
    assert composite.formula is not None
    parts = {"accuracy": 0.9, "safety_rate": 1, "behavior_coverage": 0.8, "normalized_latency": 0.5}
    assert composite.formula.compute(parts) == pytest.approx(0.27 + 0.4 + 0.16 + 0.05)


def test_descriptions_may_stand_anywhere() -> None:
    said = {"description": "why"}
    read_policy(
        {
            **said,
            "thresholds": {**said, "blocking": {**said, "accuracy": {"threshold": 90, **said}}},
            "weights": {**said, "by_category": {**said, "a": 1}, "by_capability": said},
            "required_scenarios": {**said, "ids": ["a"]},
            "pass_criteria": {**said, "by_category": {**said, "a": "90%"}},
            "progressive": {**said, "v1": {**said, "accuracy": 80}},
            "baseline": {**said, "margins": {**said, "accuracy": 0}},
            "composite": {**said, "requires": {**said}},
        }
    )


@pytest.mark.parametrize(
    ("text", "line", "message", "fix"),
    [
        ("thresolds: {}", 1, "thresolds is not a known key", "did you mean thresholds?"),
        ("\nthresholds:\n  bloking: {}", 3, "thresholds: bloking is not a known key", "blocking?"),
        ("thresholds:\n  blocking:\n    acuracy: 9", 3, "no metric is called acuracy", "accuracy?"),
        ("thresholds:\n  blocking:\n    accuracy: 1", 3, "a bare 1 may mean", "write 1%"),
        ("thresholds:\n  warning:\n    latency_p95: 5%", 3, "is in %", "5000ms"),
        ("thresholds:\n  warning:\n    accuracy: 85ms", 3, "is in ms", "85%"),
        ("thresholds:\n  warning:\n    accuracy: < 85%", 3, "asks for worse", "≥ 85%"),
        ("thresholds:\n  blocking: {accuracy: 120}", 2, "above 100 %", "85%"),
        ("thresholds:\n  blocking: {accuracy: .nan}", 2, "nan is not a threshold", "85%"),
        ("thresholds:\n  blocking: {accuracy: .inf}", 2, "inf is not a threshold", "85%"),
        ("thresholds:\n  blocking: {accuracy: yes}", 2, "True is not a threshold", "85%"),
        ("thresholds:\n  blocking: [accuracy]", 2, "not a mapping", "accuracy"),
        (
            "thresholds: {blocking: {accuracy: {treshold: 9}}}",
            1,
            "treshold is not a known key",
            "threshold?",
        ),
        ("thresholds: {blocking: {accuracy: {risk: low}}}", 1, "threshold is missing", "85%"),
        (
            "thresholds: {blocking: {accuracy: {threshold: 9, risk: dire}}}",
            1,
            "no risk is called dire",
            "critical, high, medium, low",
        ),
        (
            "thresholds:\n  blocking:\n    latency_p95: 1\n    latency_p95_ms: 2",
            4,
            "the same metric",
            "keep one",
        ),
        ("evidence: maybe", 1, "evidence: no such choice", "point, interval or guarantee"),
        ("on_inconclusive: shrug", 1, "no such choice", "fail, warn or pass"),
        ("latency_budget_ms: 0", 1, "greater than 0", "calipers init"),
        ("latency_budget_ms: .inf", 1, "finite", "calipers init"),
        ("latency_budget_ms: '5000'", 1, "latency_budget_ms is not a number", "calipers init"),
        (
            "required_scenarios: {ids: [a]}\noptional_scenarios:\n  ids:\n  - b\n  - a",
            5,
            "a is required and optional at once",
            "keep it in one",
        ),
        ("required_scenarios: {ids: a}", 1, "a is not a list", "SEC-001"),
        ("required_scenarios:\n  ids:\n  - 1.5", 3, "'1.5' is not an id", "in quotes"),
        ("required_scenarios: {id: [a]}", 1, "id is not a known key", "did you mean ids?"),
        ("weights:\n  by_category: {a: -1}", 2, "a weighs -1", "2.0"),
        ("weights:\n  by_category: {a: .nan}", 2, "a weighs nan", "2.0"),
        ("weights:\n  by_categry: {a: 1}", 2, "by_categry is not a known key", "by_category?"),
        ("weights:\n  by_category: {1: 1}", 2, "1 is not text", "in quotes"),
        ("pass_criteria:\n  overall: 1", 2, "a bare 1 may mean", "100%"),
        ("pass_criteria:\n  by_category:\n    x: '< 9%'", 3, "asks for worse", "85%"),
        ("progressive:\n  v1:\n    acuracy: 80", 3, "no metric is called acuracy", "accuracy?"),
        ("progressive:\n  release: v2\n  v1: {}", 2, "there is no such row", "v1?"),
        ("progressive:\n  1.0: {accuracy: 80}", 2, "1.0 is not text", "in quotes"),
        ("baseline:\n  margins: {accuracy: 5}", 2, "a margin of 5", "5%"),
        ("baseline:\n  margins: {step_count_mean: 5}", 2, "neither direction", "leave it out"),
        ("composite:\n  formula: accuracy ** 2", 2, "composite.formula: * is unexpected", "min"),
        ("composite:\n  formula: __import__('os')", 2, "not arithmetic", "min"),
        ("composite:\n  formula: acuracy + 1", 2, "no metric is called acuracy", "accuracy?"),
        ("composite:\n  formula: normalised_latency", 2, "no metric", "normalized_latency?"),
        ("composite:\n  formula: 3\n", 2, "3 is not a formula", "accuracy"),
        ("composite:\n  threshold: 1", 2, "a bare 1", "100%"),
        ("composite:\n  threshold: [1]", 2, "not a threshold", "85%"),
        ("description: 3", 1, "description is not a text", "calipers init"),
        ("1: 2", 1, "1 is not a known key", "known"),
        ("- a", None, "no mapping of keys to values", "calipers init"),
        ("", None, "it is empty", "calipers init"),
        ("a: &a [*a]", None, "nested deeper", "calipers init"),
        ("evidence: point\nevidence: interval", None, "evidence is there twice", "calipers init"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_the_way_out(
    text: str, line: int | None, message: str, fix: str, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as raised:
        read_policy(path)
    assert raised.value.message.startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert message in raised.value.message
    assert fix in raised.value.fix
    assert "\n" not in raised.value.message


def test_the_first_mistake_in_the_file_is_the_one_told(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("evidence: maybe\nthresholds: {blocking: {x: 3}}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=":1: evidence"):
        read_policy(path)


def test_any_metric_may_stand_in_a_policy() -> None:
    for name, metric in catalogue().items():
        sign = "≤" if metric.better == "lower" else "≥"
        high = metric.range[1]
        written = f"{sign} 0.5" if high <= 1 else f"{sign} 2"
        rules = rule(Thresholds, {"thresholds": {"blocking": {name: written}}}).blocking
        assert rules[name].threshold.operator == sign
    warns = read_policy({"thresholds": {"warning": {"pass_hat_3": 50}}})
    assert "pass_hat_3" in warns.list_metrics(Given())


def test_what_decides_nothing_is_known() -> None:
    assert not read_policy({"weights": {"by_category": {"a": 2}}}).decides
    assert not read_policy({"optional_scenarios": {"ids": []}}).decides
    deciding: list[dict[str, Any]] = [
        {"thresholds": {"warning": {"accuracy": 90}}},
        {"required_scenarios": {"ids": ["a"]}},
        {"optional_scenarios": {"ids": ["a"]}},  # which warn
        {"pass_criteria": {"overall": 80}},
        {"composite": {}},
        {"baseline": {}},
        {"progressive": {"v1": {"accuracy": 80}}},
    ]
    for each in deciding:
        assert read_policy(each).decides


def test_the_policy_in_the_documentation_loads() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "gate.md"
    text = page.read_text(encoding="utf-8")
    whole = max(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL), key=len)
    policy = make_model().of(ConfigFile("gate.md", load_yaml(whole)[0]), example="")
    assert policy.model_fields_set == set(make_model().model_fields)


def test_the_baselines_file_is_beside_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("baseline: {file: base.json}", encoding="utf-8")
    assert rule(Baseline, read_policy(path)).file == str(tmp_path / "base.json")
