"""A verdict one can see: the sentence, the rows of systems, bars, and doubt that is said once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.gates.threshold_test import describe_doubt, remove_doubt
from calipers.reports.table import BarSpan
from calipers.reports.tables.gate_tables import describe_unsure, is_unsure, make_span
from calipers.reports.tables.verdict_tables import (
    count_share,
    describe_lead,
    describe_verdict,
    list_obstacles,
    make_verdict,
    tabulate_standings,
)


def answers(right: dict[str, int], tasks: int = 40) -> list[dict[str, Any]]:
    return [
        {"id": str(n), "model": name, "target": "a", "answer": "a" if n < count else "b"}
        for name, count in right.items()
        for n in range(tasks)
    ]


def decide(right: dict[str, int], **thresholds: Any) -> cal.GateResult:
    return cal.gate(answers(right), policy={"thresholds": {"blocking": thresholds}}, by="model")


def test_the_sentence_says_who_passes_and_who_comes_closest() -> None:
    none = make_verdict(decide({"llama": 30, "o1": 36}, accuracy=95, error_rate="<= 2%"))
    assert describe_verdict(none) == "No system meets the policy; o1 comes closest."
    some = make_verdict(decide({"llama": 20, "o1": 36}, accuracy=80))
    assert describe_verdict(some) == "1 of 2 systems meets the policy: o1."
    everybody = make_verdict(decide({"llama": 36, "o1": 37}, accuracy=80))
    told = "Both systems meet the policy; o1 has the highest accuracy, not for sure."
    assert describe_verdict(everybody) == told


def test_one_system_is_told_what_it_misses() -> None:
    gate = cal.gate(
        answers({"o1": 30}),
        policy={"thresholds": {"blocking": {"accuracy": 90}, "warning": {"error_rate": "<= 1%"}}},
    )
    assert describe_verdict(make_verdict(gate)) == "It misses 1 of 1 checks: accuracy 75.0 %."
    [(check, said)] = list_obstacles(make_verdict(gate))
    assert said == "30 of 40 (75.0 %), required ≥ 90 %"
    assert count_share(check) == "30 of 40 (75.0 %)"


def test_systems_are_compared_by_what_the_policy_blocks_on(tmp_path: Path) -> None:
    """Checks decide this build: a target that both miss most of the time says little."""
    rows = [
        {"id": str(n), "model": model, "target": "a", "answer": "b", "passed": n < passed}
        for model, passed in {"llama3": 39, "llama3.1": 30}.items()
        for n in range(40)
    ]
    policy = tmp_path / "policy.yaml"
    policy.write_text("thresholds: {blocking: {pass_rate: 90}}")
    page = cal.report(rows, policy=policy)
    assert page.ranking is not None
    assert [each.metric for each in page.ranking.metrics] == ["pass_rate"]
    assert make_verdict(page.gate, page.score).metric == "pass_rate"
    free = cal.report(rows)
    assert free.ranking is not None
    assert [each.metric for each in free.ranking.metrics] == ["accuracy"]


def test_a_ranking_of_models_says_nothing_of_models_by_prompt() -> None:
    rows = [
        {**row, "variant": prompt} for row in answers({"o1": 9, "*": 7}) for prompt in ("", "steps")
    ]
    score, ranking = cal.score(rows, by=["model", "variant"]), cal.rank(rows, by="model")
    verdict = make_verdict(None, score, ranking)
    assert len(verdict.standings) == 4
    assert describe_lead(verdict) == ""
    assert make_verdict(None, cal.score(rows, by="model"), ranking).ranked is not None


@pytest.mark.parametrize(("most", "sure"), [(38, True), (31, False)])
def test_how_sure_the_lead_is_follows_the_adjusted_test(most: int, sure: bool) -> None:  # noqa: FBT001
    rows = answers({"llama": 8, "llama3": 30, "o1": most})
    report = cal.report(rows)
    assert report.ranking is not None
    verdict = make_verdict(None, report.score, report.ranking)
    lead = describe_lead(verdict)
    assert lead.startswith(f"o1 is right in {100 * most / 40:.0f} % of its answers")
    assert ("That difference is sure" in lead) == sure
    first, second = report.ranking.metrics[0].systems[:2]
    pair = report.ranking.metrics[0].pairs[0]
    assert {pair.a, pair.b} == {first.name, second.name}
    assert report.ranking.metrics[0].is_apart(pair) == sure


def test_a_row_per_system_the_best_first() -> None:
    gate = decide({"llama": 20, "o1": 38}, accuracy=80, error_rate="<= 20%")
    table = tabulate_standings(make_verdict(gate))
    names = [row.get_cell(table.find_column("system")).value for row in table.rows]
    assert names == ["o1", "llama"]
    met = [row.get_cell(table.find_column("checks")).shown for row in table.rows]
    assert met == ["2 of 2", "0 of 2"]
    values = [row.get_cell(table.find_column("value")).shown for row in table.rows]
    assert values[0].startswith("✓ 95.0 %")
    assert values[1].startswith("✕ 50.0 %")


def test_the_mark_stands_where_the_interval_reaches_the_limit() -> None:
    [sure] = decide({"o1": 39}, accuracy=60).checks
    [unsure] = decide({"o1": 33}, accuracy=80).checks
    assert not is_unsure(sure)
    assert is_unsure(unsure)
    rows = [{"id": str(n), "passed": True, "latency_ms": 10 + n} for n in range(8)]
    policy = {"thresholds": {"blocking": {"latency_p95_ms": "< 500ms"}}}
    [open_ended] = cal.gate(rows, policy=policy).checks
    assert open_ended.high is None
    assert is_unsure(open_ended)  # nobody knows how high it may be
    [counted] = cal.gate(rows, policy={"required_scenarios": {"ids": ["3"]}}).checks
    assert not is_unsure(counted)


def test_more_scenarios_are_asked_for_once() -> None:
    gate = decide({"llama": 33, "o1": 34}, accuracy=80, error_rate="<= 22%")
    unsure = [check for check in gate.checks if is_unsure(check)]
    assert len(unsure) > 2
    assert all("more scenarios" in str(check.reason) for check in unsure)
    for shown in (str(gate), gate.to_markdown(), gate.to_latex()):
        assert len(re.findall(r"more\s+scenarios? would decide", shown)) == 1
    assert len(list(describe_unsure(gate.checks))) == 2


@pytest.mark.parametrize("further", [None, (5, 5, 5), (10, 85, None), (2, 1_100, 13_000)])
def test_a_doubt_is_taken_out_of_a_reason_as_it_was_put_in(further: Any) -> None:
    doubt = describe_doubt(further, thin=True, confidence=0.95)
    assert remove_doubt(doubt) == ""
    assert remove_doubt(f"5 %, required ≤ 4 %; {doubt}") == "5 %, required ≤ 4 %"
    assert remove_doubt(f"inconclusive: {doubt}; 3 are missing") == "3 are missing"


def test_a_bar_shows_value_interval_and_limit() -> None:
    drawn = BarSpan(value=0.5, low=0.2, high=0.7, limit=0.9).draw(10)
    assert drawn == "──━━━●━━─┊"
    assert BarSpan(value=1.0, low=1.0, high=1.0, limit=1.0).draw(10).endswith("●")
    assert len(BarSpan(value=0.0, low=0.0, high=1.0).draw(7)) == 7
    [check] = decide({"o1": 30}, accuracy=80).checks
    span = make_span(check)
    assert span is not None
    assert (span.value, span.limit) == (0.75, 0.8)
    assert (span.low, span.high) == (check.low, check.high)


def test_bars_stand_in_every_format_for_people_and_in_no_data() -> None:
    gate = decide({"llama": 20, "o1": 38}, accuracy=80)
    assert "●" in str(gate)
    assert "`" in gate.to_markdown()
    assert "●" in gate.to_markdown()
    assert "<svg" in gate._repr_html_()
    for data in (gate.to_csv(), gate.to_json(), gate.to_latex()):
        assert "●" not in data
    assert "bar" not in gate.to_csv().splitlines()[0].split(",")


@pytest.mark.parametrize(
    "policy",
    [
        {"required_scenarios": {"ids": ["accuracy", "*"]}},
        {"pass_criteria": {"by_category": {"accuracy": "≥ 50%"}}},
        {"pass_criteria": {"overall": "≥ 50%"}},
        {"composite": {"name": "readiness", "weights": {"pass_rate": 1}, "at_least": 50}},
    ],
    ids=["required", "category", "overall", "composite"],
)
def test_checks_of_no_metric_are_told_per_system(policy: dict[str, Any]) -> None:
    records = [
        {"id": name, "category": "accuracy", "model": model, "passed": True}
        for name in ("accuracy", "*")
        for model in ("llama３", "🤖")
    ]
    gate = cal.gate(records, policy=policy, by="model")
    assert gate.passed
    assert make_verdict(gate).metric is None
    for shown in (str(gate), gate.to_markdown(), gate._repr_html_()):
        assert "Both systems meet the policy." in shown
        assert "llama３" in shown


def test_a_hostile_name_stays_text() -> None:
    name = "<img src=x onerror=alert(1)>|`x`"
    gate = decide({name: 20, "o1": 38}, accuracy=80)
    assert "<img" not in gate._repr_html_()
    assert "<img" not in gate.to_markdown()
