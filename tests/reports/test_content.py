"""A report says what the score says, in the order that a person needs, and stays one small file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.gates.result import Early, Standing, read_gate
from calipers.reports.number_format import format_figure, split_figure
from calipers.reports.report_parts import make_headline, tabulate_recommendations
from calipers.reports.table import Cell, Table
from calipers.reports.tables.gate_tables import describe_check, label_check
from calipers.reports.tables.score_tables import make_score_document
from calipers.reports.tables.shown_metrics import choose_metric_form, list_shown
from tests.reports.pages_at_hand import page_of, records

pytest.importorskip("jinja2", reason="Jinja is not installed (extra `report`)")
pytest.importorskip("vl_convert", reason="vl-convert is not installed (extra `report`)")

POLICY = {
    "thresholds": {
        "blocking": {"accuracy": "≥ 99%", "latency_p95_ms": "< 5000ms"},
        "warning": {"ece": "≤ 1%"},
    },
    "pass_criteria": {"overall": 0.1, "by_category": {"sums": 0.99}},
    "required_scenarios": {"ids": ["task-1", "nowhere"]},
}


@pytest.fixture(scope="module")
def made() -> cal.Report:
    return cal.report(records(), policy=POLICY)


@pytest.fixture(scope="module")
def html(made: cal.Report) -> str:
    return made.to_html()


def test_every_number_is_the_score_s(made: cal.Report, html: str) -> None:
    again = cal.score(records(), by="model")
    text = page_of(html).text
    assert [group.by for group in made.score.groups] == [group.by for group in again.groups]
    for ours, theirs in zip(made.score.groups, again.groups, strict=True):
        for name, measured in theirs.metrics.items():
            assert ours.metrics[name] == measured
            if name in ("usr", "error_rate"):  # 1 − accuracy
                assert re.search(rf"\b{name}\b", text) is None
            elif measured.value is not None:
                form = choose_metric_form(name, [e.metrics[name] for e in again.groups])
                assert split_figure(measured.value, measured.low, measured.high, form)[0] in text
            else:
                assert measured.reason is not None
                assert measured.reason in text


def test_the_order_is_that_of_a_person_with_two_minutes(html: str) -> None:
    parts = ["verdict", "answers", "failed", "samples", "spending"]
    parts += ["checks", "leaderboard", "metrics", "breakdowns", "figures", "definitions", "methods"]
    places = [html.index(f'id="{part}"') for part in parts]
    assert places == sorted(places)
    text = page_of(html).text
    assert text.index("Fail") < text.index("accuracy")
    assert "No system meets the policy; beta comes closest." in text
    assert "required ≥ 99 %" in text


def test_the_checks_stand_there_with_their_reasons(made: cal.Report, html: str) -> None:
    text = page_of(html).text
    assert made.gate is not None
    assert made.gate.verdict == "fail"
    for check in made.gate.checks:
        assert label_check(check) in text
        if check.reason:
            assert re.sub(r"\s+", " ", describe_check(check)) in text


def test_rates_are_percentages_on_the_whole_page(made: cal.Report, html: str) -> None:
    accuracy = made.score.group(model="alpha")["accuracy"].value
    assert accuracy is not None
    for text in (page_of(html).text, made.to_markdown()):
        assert "required ≥ 99 %" in text
        assert f"{100 * accuracy:.0f} %" in text
        assert not re.findall(r"required ≥ 0\.", text)


def test_a_score_beside_a_gate_is_in_percent_as_the_gate_is(made: cal.Report) -> None:
    shown = make_score_document(made.score)
    rows = [row for each in shown if isinstance(each, Table) for row in each.rows]
    for name, percent in (("accuracy", True), ("latency_p95_ms", False)):
        cells = next(
            row.cells
            for row in rows
            if any(isinstance(cell, Cell) and cell.value == name for cell in row.cells)
        )
        assert any("%" in cell.shown for cell in cells if isinstance(cell, Cell)) == percent


def test_every_metric_leads_to_its_definition(html: str) -> None:
    page = page_of(html)
    ids = {attributes.get("id") for _, attributes in page.tags}
    links = {str(each.get("href")) for tag, each in page.tags if tag == "a"}
    assert "#def-accuracy" in links
    assert {link[1:] for link in links if link.startswith("#")} <= ids
    assert not [link for link in links if not link.startswith("#")]


def test_figures_carry_totals_and_no_records(html: str) -> None:
    specs = page_of(html).specs()
    assert {"spec-reliability", "spec-cost_pass_rate", "spec-latency", "spec-tokens"} <= set(specs)
    assert "What is" not in json.dumps(specs)
    assert '"url"' not in json.dumps(specs)
    assert "expr" not in json.dumps(specs)


def test_what_failed_has_its_ids(made: cal.Report, html: str) -> None:
    calls = [each for each in made.failures if each.what == "timeout"]
    wrong = [each for each in made.failures if each.what == "wrong"]
    rows = records()
    for each in calls:
        ids = {row["id"] for row in rows if row["model"] == each.by["model"] and row["error"]}
        assert set(each.ids) == ids
    for each in wrong:
        bad = [
            row
            for row in rows
            if row["model"] == each.by["model"] and not row["passed"] and not row["error"]
        ]
        assert each.records == len(bad)
        assert set(each.ids) == {row["id"] for row in bad}
    text = page_of(html).text
    assert "call failed: timeout" in text
    assert "Flaky tasks" in text


def test_the_breakdown_is_the_score_by_category(made: cal.Report, html: str) -> None:
    again = cal.score(records(), by=["category", "model"], metrics=["accuracy"])
    ours = made.breakdowns["category"]
    text = page_of(html).text
    form = choose_metric_form("accuracy", (g.metrics["accuracy"] for g in again.groups))
    for group, theirs in zip(ours.groups, again.groups, strict=True):
        assert group.by == theirs.by
        assert group.metrics["accuracy"] == theirs.metrics["accuracy"]
        found = theirs.metrics["accuracy"]
        assert format_figure(found.value, found.low, found.high, form) in text


def test_samples_are_bounded_and_the_rest_is_counted(made: cal.Report) -> None:
    few = cal.report(records(), samples=7)
    assert len(few.samples) == 7
    assert few.samples[0].kind == "wrong"
    assert sum(few.kinds.values()) == 120
    assert "7 of 120 records, the most telling first" in page_of(few.to_html()).text
    none = cal.report(records(), samples=0)
    assert none.samples == ()
    assert 'id="samples"' not in none.to_html()
    shown = [sample.kind for sample in made.samples]
    assert [shown.count(kind) for kind in ("wrong", "failed", "right")] == [42, 7, 6]


def test_a_long_text_is_clipped_and_says_so() -> None:
    rows = [{"id": "a", "answer": "x" * 5000, "target": "y"}]
    text = page_of(cal.report(rows).to_html()).text
    assert "… (3,500 more characters)" in text


def test_tiers_have_grades_and_uplift() -> None:
    rows = [row | {"tier": tier} for tier in ("T0", "T1") for row in records(20, models=("m",))]
    made = cal.report(rows)
    page = page_of(made.to_html())
    assert made.score.tiers[0].baseline == "T0"
    assert "Tiers against T0" in page.text
    assert "0 % [0, 0]" in page.text
    assert "spec-composite_by_tier" in page.specs()


def test_without_a_policy_the_main_numbers_stand_first() -> None:
    text = page_of(cal.report(records()).to_html()).text
    assert "Result alpha is best by accuracy." in text
    assert "alpha is right in 84 % of its answers, beta in" in text
    assert "No policy was given, so nothing was decided." in text


def graded(solved: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {"id": str(n), "model": name, "correct": n < most}
        for name, most in solved.items()
        for n in range(60)
    ]


def test_systems_are_ranked_by_the_adjusted_test() -> None:
    rows = graded({"a-worst": 10, "b-best": 50, "c-close": 48})
    told = cal.report(rows)
    assert told.ranking is not None
    assert told.ranking.systems == cal.rank(rows).systems
    page = page_of(told.to_html())
    assert "Result b-best leads by accuracy, not for sure." in page.text
    assert "That difference is not sure" in page.text
    assert "Both beat the other one." in page.text
    assert "spec-ranking" in page.specs()
    first = page.text.partition("how it was measured")[2]
    assert first.index("b-best") < first.index("c-close") < first.index("a-worst")
    text = told.to_markdown()
    assert "## Leaderboard" in text
    assert "| metric | b-best | c-close | a-worst |" in text
    assert [group.by["model"] for group in told.score.groups] == ["a-worst", "b-best", "c-close"]


def test_two_systems_have_their_difference_with_p() -> None:
    text = page_of(cal.report(graded({"a": 10, "b": 50})).to_html()).text
    assert "b is best by accuracy." in text
    assert "That difference is sure: 67 [+52, +77] points, p < 0.0001." in text


def test_why_systems_are_not_ranked_is_said() -> None:
    apart = [{"id": f"{model}{n}", "model": model, "correct": True} for model in "ab" for n in "12"]
    told = cal.report(apart)
    assert told.ranking is None
    assert any("no task is common to all systems" in notice for notice in told.notices)
    assert "no task is common to all systems" in told.to_html()
    few = [row for row in graded({"a": 10, "b": 50}) if row["model"] == "a" or int(row["id"]) < 20]
    assert cal.report(few).notices == (
        "the systems are not ranked: all of them have only 20 of 60 tasks (calipers rank)",
    )
    one = cal.report([{"id": "1", "model": "a", "correct": True}])
    assert one.ranking is None
    assert not one.notices


def test_one_plain_record_is_a_report_too() -> None:
    html = cal.report([{"answer": "4", "target": "4"}]).to_html()
    assert "Nothing: no call failed" in html
    assert len(html) < 100_000  # without figures, the script that draws them is not there


@pytest.mark.long
def test_100_000_records_stay_small(tmp_path: Path) -> None:
    few = pl.DataFrame(records())
    rows = pl.concat([few] * 840).with_columns(pl.int_range(pl.len()).cast(pl.String).alias("id"))
    made = cal.report(rows, tmp_path / "report.html")
    assert made.score.records == rows.height > 100_000
    assert (tmp_path / "report.html").stat().st_size < 5_000_000


@pytest.mark.long
def test_very_many_groups_stay_small_too() -> None:
    few = pl.DataFrame(records())
    ids = pl.int_range(pl.len()).cast(pl.String).alias("id")
    made = cal.report(pl.concat([few] * 20).with_columns(ids), by="id", samples=5)
    assert len(made.score.groups) == 2400
    html, told = made.to_html(), made.to_markdown()
    assert len(html) < 4_000_000
    assert "the first 200 of 2400 groups" in html
    assert len(told) < 500_000
    assert "The first 100 of 2,400 groups." in told


@pytest.mark.long
def test_the_same_records_give_the_same_bytes() -> None:
    assert cal.report(records()).to_html() == cal.report(records()).to_html()


def test_markdown_holds_the_same_numbers(made: cal.Report) -> None:
    told = made.to_markdown()
    for group in made.score.groups:
        for name in list_shown(made.score):
            every = [each.metrics[name] for each in made.score.groups]
            measured, form = group.metrics[name], choose_metric_form(name, every)
            assert split_figure(measured.value, measured.low, measured.high, form)[0] in told
    for heading in ("## Metrics", "## By category", "## What failed", "## Samples"):
        assert heading in told
    assert "gate: fail" in told


def test_a_verdict_comes_back_from_its_json(made: cal.Report) -> None:
    gate = made.gate
    assert gate is not None
    stored: dict[str, Any] = json.loads(gate.to_json())
    again = read_gate(stored)
    assert again is not None
    assert again.to_dict() == gate.to_dict()
    early = Early(stopped=True, made=3, planned=9, seed=1, alpha=0.05, shared_by=2)
    standing = Standing(name="accuracy", decided="fail", tasks=3, of=9, low=0.1, after=2)
    check = replace(gate.checks[0], sequence=standing, evidence=({"judge": "j", "kappa": 0.5},))
    whole = replace(gate, early=early, checks=(check, *gate.checks[1:]))
    again = read_gate(json.loads(whole.to_json()))
    assert again is not None
    assert again.to_dict() == whole.to_dict()
    assert read_gate({}) is None
    assert read_gate({**stored, "checks": [{"name": 1}]}) is None
    assert read_gate({**stored, "records": "many"}) is None
    assert read_gate({**stored, "schema": "calipers.gate/2"}) is None


def test_bad_rows_are_left_out_of_every_count() -> None:
    rows = [{"id": "a", "passed": True}, {"id": "b", "passed": False, "impl_rate": 1.5}]
    made = cal.report(rows, on_bad="skip")
    assert made.score.records == sum(made.kinds.values()) == 1


def test_what_judges_said_is_in_the_samples() -> None:
    said = {"judge": "strict", "passed": False, "weighted_score": 0.2, "reasoning": "no file"}
    (sample,) = cal.report([{"id": "a", "judgments": [said]}]).samples
    assert sample.texts["judges"] == "strict: not passed; 0.2; no file"


def test_records_without_a_field_of_ours_say_so() -> None:
    page = cal.report([{"colour": "red"}]).to_html()
    assert "No metric reads any field of these records." in page
    assert 'id="definitions"' not in page


def test_flagged_answers_are_counted_at_the_top() -> None:
    judgment = {"judge": "j", "model": "m", "passed": True, "flags": ["instruction"]}
    rows = [{"id": "a", "answer": "x", "target": "y", "judgments": [judgment]}]
    text = page_of(cal.report(rows).to_html()).text
    assert "Judged records with text that seems to address the judge: 1" in text


# --- the answer first ---


def test_the_title_is_the_suite_s_or_tells_systems_and_tasks() -> None:
    def title(rows: list[dict[str, Any]]) -> str:
        return cal.report(rows).title

    assert title(graded({"a": 10})) == "a on 60 tasks"
    assert title(graded({"a": 10, "b": 20})) == "a and b on 60 tasks"
    assert title(graded(dict.fromkeys("abc", 10))) == "3 models on 60 tasks"
    assert title([{"correct": True}]) == "1 task"  # a record without an id is one
    tiers = [row | {"tier": tier} for tier in ("T0", "T1") for row in graded({"a": 10})]
    assert title(tiers) == "2 tiers of a on 60 tasks"


def test_failed_and_truncated_calls_are_told_at_the_top() -> None:
    rows = graded({"a": 10, "b": 50})
    rows[0] |= {"error": "timeout: 60 s", "correct": None}
    rows[1] |= {"finish_reason": "length"}
    for policy in (None, {"thresholds": {"blocking": {"accuracy": 5}}}):
        told = make_headline(cal.report(rows, policy=policy))
        failed = "1 of 120 calls failed" in told.reasons[0]
        assert failed
        assert sum("calls failed" in each for each in told.reasons) == 1
        assert "1 of 120 replies were truncated (a 1)." in told.reasons


def test_tiers_are_told_by_their_tests_against_the_baseline() -> None:
    def runs(rates: dict[str, float]) -> list[dict[str, Any]]:
        return [
            {
                "id": str(n),
                "tier": tier,
                "passed": n % 10 < 10 * rate,
                "impl_rate": rate,
                "cost_usd": 0.1 + 0.001 * n,
            }
            for tier, rate in rates.items()
            for n in range(30)
        ]

    apart = " ".join(make_headline(cal.report(runs({"T0": 0.2, "T1": 0.9}))).reasons)
    assert "Composite score significantly above that of T0: T1 (p < 0.0001)." in apart
    assert "Median composite by tier: from" in apart
    assert "Cheapest way to a pass:" in apart
    alike = " ".join(make_headline(cal.report(runs({"T0": 0.5, "T1": 0.5}))).reasons)
    assert "No tier differs significantly from T0 in composite score" in alike


def test_the_hardest_tasks_are_listed_by_system() -> None:
    told = cal.report(graded({"a": 10, "b": 50}))
    assert told.n_tasks == 60
    assert told.tasks[0].id == "50"
    assert (told.tasks[0].right, told.tasks[0].runs) == (0, 2)
    half = next(each for each in told.tasks if each.id == "10")
    assert half.by_system == {("a",): (0, 1), ("b",): (1, 1)}
    assert "| 10 | 50 % | 100 % | 0 % | 2 |" in told.to_markdown()  # b is ranked first
    many = cal.report(graded({f"m{n}": n for n in range(9)}))
    assert "| 0 | 89 % | 8 of 9 | 9 |" in many.to_markdown() or many.tasks[0].right == 0
    assert many.to_dict()["tasks"][0]["runs"] == 9


def test_recommendations_are_counted() -> None:
    trace = {"tool_calls": [{"tool_name": "search", "success": True}]}
    rows = [
        {"id": str(n), "trace": trace, "answer": "x", "target": "x", "duration_seconds": 1 + n}
        for n in range(4)
    ]
    poor = cal.report(rows)  # with one part of six, there is nothing to recommend
    assert tabulate_recommendations(poor.score.groups) is None
    assert "Recommendations" not in poor.to_html() + poor.to_markdown()
    assert "agent_composite" not in str(poor.score)
    assert "agent_composite" in poor.score.groups[0].metrics
    team: dict[str, Any] = {"agent_interactions": [{"from": "a", "to": "b", "type": "ask"}] * 2}
    team |= {"agent_tasks": {"a": 2, "b": 1}}
    rows = [row | {"trace": trace | team, "reference": "x"} for row in rows]
    told = cal.report(rows, semantic_model="lexical")
    table = tabulate_recommendations(told.score.groups)
    assert table is not None
    [row] = table.rows
    extras = told.score.groups[0].metrics["agent_composite"].extras
    counts = [row.get_cell(place).value for place in range(3, 7)]
    assert counts == [extras[name] for name in ("accept", "weak_accept", "weak_reject", "reject")]
    assert sum(counts) == 4
    assert "Recommendations" in told.to_html()
    assert "## Recommendations" in told.to_markdown()
