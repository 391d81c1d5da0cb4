"""The audit of judges: what it measures, against plain Python; what it refuses; what it prints."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from functools import partial
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scipy import stats

import calipers as cal
from calipers.audits import AuditGroup, JudgeAudit
from calipers.cli.judge import JudgeGroup
from calipers.reporting.audit import audit_text
from tests import commands
from tests.files import write_lines
from tests.shared_data import FOLDER, expected, needs_shared_data

Row = dict[str, Any]


def judgment(
    judge: str | None = "j1",
    score: float | None = 0.5,
    *,
    passed: bool | None = True,
    **more: Any,
) -> Row:
    return {"judge": judge, "passed": passed, "weighted_score": score, **more}


def record(task: str, *judgments: Row, **more: Any) -> Row:
    return {"id": task, "judgments": list(judgments), **more}


def items(*given: tuple[float, float]) -> dict[str, Any]:
    return {f"F{n}": {"achieved": got, "max": top} for n, (got, top) in enumerate(given, start=1)}


PANEL = [
    record("q1", judgment("a", 0.9), judgment("b", 0.7), judgment("c", 0.5, passed=False)),
    record("q1", judgment("a", 0.8), judgment("b", 0.8)),
    record(
        "q2",
        judgment("a", 0.4, passed=False),
        judgment("b", 0.1, passed=False),
        judgment("c", 0.2, passed=False),
    ),
    record("q3", judgment("a", None, passed=None), judgment("b", 0.6), judgment("c", 0.9)),
]


def only(audit: cal.Audit) -> AuditGroup:
    [group] = audit.groups
    return group


def judge_named(audit: cal.Audit, name: str) -> JudgeAudit:
    [found] = [judge for judge in only(audit).judges if judge.judge == name]
    return found


run, refused = partial(commands.run, "judge"), partial(commands.refused, "judge")


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "panel.jsonl", PANEL)


# --- what is measured ---


def test_counts() -> None:
    audit = cal.audit_judges(PANEL)
    group = only(audit)
    assert (group.records, group.judged, group.errors, group.clusters) == (4, 4, 0, 3)
    assert group.judgments == 11
    counts = {judge.judge: (judge.judgments, judge.missing) for judge in group.judges}
    assert counts == {"a": (4, 0), "b": (4, 0), "c": (3, 1)}
    rate, mean = (judge_named(audit, "a").measures[name] for name in ("pass_rate", "mean_score"))
    assert (rate.value, rate.n, rate.missing) == (2 / 3, 3, 1)
    assert (mean.n, mean.missing) == (3, 1)
    assert mean.value == pytest.approx(0.7)


def test_bias_is_from_the_mean_of_the_others_on_the_same_records() -> None:
    audit = cal.audit_judges(PANEL)
    a, b, c = (judge_named(audit, name).measures for name in "abc")
    assert a["bias"].value == pytest.approx(fmean([0.9 - 0.6, 0.8 - 0.8, 0.4 - 0.15]))
    assert b["bias"].value == pytest.approx(fmean([0.7 - 0.7, 0.8 - 0.8, 0.1 - 0.3, 0.6 - 0.9]))
    assert c["bias"].value == pytest.approx(fmean([0.5 - 0.8, 0.2 - 0.25, 0.9 - 0.6]))
    assert (a["bias"].n, a["bias"].missing) == (3, 1)
    assert a["pass_bias"].value == pytest.approx(fmean([1 - 0.5, 0, 0]))
    assert c["pass_bias"].value == pytest.approx(fmean([0 - 1, 0, 0]))


def clustered_t(values: Sequence[float], clusters: Sequence[str]) -> tuple[float, float]:
    """The interval as Miller (2024) writes it: Σ of each cluster's residuals, squared."""
    mean, names = fmean(values), sorted(set(clusters))
    residuals = [
        sum(v - mean for v, c in zip(values, clusters, strict=True) if c == name) for name in names
    ]
    size = len(names)
    stderr = sqrt(size / (size - 1) * sum(r * r for r in residuals)) / len(values)
    reach = float(stats.t.ppf(0.975, size - 1)) * stderr
    return mean - reach, mean + reach


def test_intervals_take_the_runs_of_a_task_as_one() -> None:
    values = [0.12, 0.31, 0.27, 0.05, 0.4, 0.33, 0.21, 0.18]
    tasks = ["q1", "q1", "q2", "q2", "q2", "q3", "q4", "q5"]
    rows = [
        record(task, judgment("a", 0.5 + value), judgment("b", 0.5))
        for task, value in zip(tasks, values, strict=True)
    ]
    found = judge_named(cal.audit_judges(rows), "a").measures["bias"]
    assert (found.low, found.high) == pytest.approx(clustered_t(values, tasks), abs=1e-12)
    assert found.interval == "t"
    alone = [{**row, "run": str(n)} for n, row in enumerate(rows)]
    apart = judge_named(cal.audit_judges(alone, cluster="run"), "a").measures["bias"]
    test = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (apart.low, apart.high) == pytest.approx((test.low, test.high), abs=1e-12)
    narrower = judge_named(cal.audit_judges(alone, cluster="run", confidence=0.5), "a").measures[
        "bias"
    ]
    assert narrower.low is not None
    assert apart.low is not None
    assert narrower.low > apart.low


def test_the_pass_rate_has_wilsons_interval() -> None:
    rows = [record(f"q{n}", judgment(passed=n % 3 > 0)) for n in range(40)]
    found = judge_named(cal.audit_judges(rows), "j1").measures["pass_rate"]
    wilson = stats.binomtest(26, 40).proportion_ci(method="wilson")
    assert (found.value, found.interval) == (26 / 40, "wilson")
    assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high))
    twice = judge_named(cal.audit_judges(rows + rows), "j1").measures["pass_rate"]
    assert twice.low is not None
    assert found.low is not None
    assert twice.low <= found.low + 1e-9, "a copy of each record tells nothing more"


@pytest.mark.parametrize("value", ["passed", "weighted_score"])
def test_agreement_is_what_agree_says(value: str) -> None:
    ours = only(cal.audit_judges(PANEL)).agreement
    theirs = cal.agree(PANEL, value=value)
    for name, found in getattr(ours, value).items():
        assert found == theirs.measures[name]
    for mine, pair in zip(ours.pairs, theirs.pairs, strict=True):
        assert mine.judges == pair.raters
        for name, found in getattr(mine, value).items():
            assert found == pair.measures[name]


_SCORES = st.none() | st.integers(0, 100).map(lambda n: n / 100)
_JUDGED = st.lists(
    st.tuples(
        st.sampled_from(["q1", "q2", "q3"]),
        st.dictionaries(st.sampled_from("abcd"), st.tuples(_SCORES, st.none() | st.booleans())),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(_JUDGED)
def test_values_equal_plain_python(
    drawn: list[tuple[str, dict[str, tuple[float | None, bool | None]]]],
) -> None:
    rows = [
        record(
            task, *(judgment(name, score, passed=passed) for name, (score, passed) in votes.items())
        )
        for task, votes in drawn
    ]
    audit = cal.audit_judges(rows)
    assert audit.to_json() == cal.audit_judges(rows).to_json()
    assert audit.judged == sum(bool(votes) for _, votes in drawn)
    for group in audit.groups:
        for judge in group.judges:
            own = [votes[judge.judge] for _, votes in drawn if judge.judge in votes]
            assert judge.judgments == len(own)
            for measured in judge.measures.values():
                assert measured.n + measured.missing == judge.judgments
                assert (measured.value is None) == (measured.reason is not None)
                if (
                    measured.value is not None
                    and measured.low is not None
                    and measured.high is not None
                ):
                    assert measured.low - 1e-9 <= measured.value <= measured.high + 1e-9
            for name, place in (("bias", 0), ("pass_bias", 1)):
                apart = []
                for _, votes in drawn:
                    mine = votes.get(judge.judge, (None, None))[place]
                    others = [
                        vote[place]
                        for other, vote in votes.items()
                        if other != judge.judge and vote[place] is not None
                    ]
                    if mine is not None and others:
                        apart.append(
                            mine - fmean(float(each) for each in others if each is not None)
                        )
                value = judge.measures[name].value
                assert value == (pytest.approx(fmean(apart), abs=1e-12) if apart else None)


def test_the_order_of_records_and_judges_does_not_matter() -> None:
    turned = [{**row, "judgments": row["judgments"][::-1]} for row in PANEL[::-1]]
    for mine, theirs in zip(
        only(cal.audit_judges(PANEL)).judges, only(cal.audit_judges(turned)).judges, strict=True
    ):
        assert (mine.judge, mine.judgments) == (theirs.judge, theirs.judgments)
        for name, found in mine.measures.items():
            assert found.value == pytest.approx(theirs.measures[name].value, abs=1e-12)
            assert found.low == pytest.approx(theirs.measures[name].low, abs=1e-12)


def test_groups() -> None:
    rows = [{**row, "tier": tier} for tier in ("T1", "T0") for row in PANEL]
    audit = cal.audit_judges([*rows, record("q9", judgment("d"), tier=None)], by="tier")
    assert [group.by["tier"] for group in audit.groups] == ["T0", "T1", None]
    alone = only(cal.audit_judges(PANEL)).to_dict()
    assert {**audit.groups[0].to_dict(), "by": {}} == alone
    assert [judge.judge for judge in audit.groups[2].judges] == ["d"]


def test_failed_calls_and_records_without_judgements_are_counted() -> None:
    rows = [*PANEL, record("q4", judgment("a"), error="timeout: 120 s"), {"id": "q5"}, record("q6")]
    group = only(cal.audit_judges(rows))
    assert (group.records, group.errors, group.judged, group.judgments) == (7, 1, 4, 11)


# --- scores against items ---


def test_scores_against_items(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "judged.jsonl",
        [
            record("q1", judgment("a", 0.93, items=items((1.85, 2))), judgment("b", 0.5)),
            record("q2", judgment("a", 0.9, items=items((1, 1)))),
            record("q3", judgment("a", 0.2, items=items((1, 1)))),
            record("q4", judgment("a", 0.2, items={"F1": {"achieved": 1}})),
            record("q5", judgment("a", None, items=items((1, 1)))),
            record("q6", judgment("a", 1.0, items=items((0.997, 1)))),
        ],
    )
    audit = cal.audit_judges(path)
    a, b = judge_named(audit, "a"), judge_named(audit, "b")
    assert (a.items.checked, a.items.equal, a.items.unsummed, a.items.without) == (4, 2, 2, 0)
    assert (b.items.checked, b.items.equal, b.items.unsummed, b.items.without) == (0, 0, 0, 1)
    assert a.measures["items_equal"].value == 0.5
    assert (a.measures["items_equal"].n, a.measures["items_equal"].missing) == (4, 2)
    assert a.measures["items_difference"].value == pytest.approx(fmean([0.005, -0.1, -0.8, 0.003]))
    assert [(each.id, each.where, each.score, each.items) for each in a.items.worst] == [
        ("q3", f"{path}:3", 0.2, 1.0),
        ("q2", f"{path}:2", 0.9, 1.0),
    ]
    assert [(each.id, each.reason) for each in a.items.problems] == [
        ("q4", "item F1 has no max"),
        ("q5", "there are items, but no weighted_score"),
    ]
    assert b.measures["items_equal"].reason == "no judgement carries items"
    assert audit.to_dict()["groups"][0]["items"] == {"checked": 4, "equal": 2}
    fewer = judge_named(cal.audit_judges(path, worst=1), "a").items
    assert ([each.id for each in fewer.worst], len(fewer.problems), fewer.unsummed) == (
        ["q3"],
        1,
        2,
    )


def test_the_spelling_of_a_score_decides_how_far_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    line = '{{"id": "q", "judgments": [{{"judge": "j", "weighted_score": {}, "items": {{"F": {{"achieved": 13, "max": 14}}}}}}]}}\n'
    for written, equal in (
        ("0.93", 1),
        ("0.9286", 1),
        ("0.928", 0),
        ("0.92857143", 1),
        ("0.9285", 0),
        ("0.9", 0),
    ):
        path.write_text(line.format(written))
        assert judge_named(cal.audit_judges(path), "j").items.equal == equal, written


def test_a_rubric_in_the_record_weighs_the_scores() -> None:
    scores = {"right": 1, "clear": 0.5}
    rubric = {"criteria": [{"name": "right", "weight": 3}, {"name": "clear", "weight": 1}]}
    rows = [record("q1", judgment("a", 0.88, scores=scores), rubric=rubric)]
    assert judge_named(cal.audit_judges(rows), "a").items.equal == 1
    assert (
        judge_named(cal.audit_judges(rows, weights={"right": 1, "clear": 1}), "a").items.equal == 0
    )
    others: list[Any] = ["technical_accuracy", {"name": "x", "note": "y"}, None, [], 5]
    for other in others:
        found = judge_named(cal.audit_judges([{**rows[0], "rubric": other}]), "a").items
        assert (found.checked, found.without) == (0, 1)
    broken = {**record("q1", judgment("a", 0.5, items=items((1, 2)))), "rubric": {"F1": "high"}}
    [problem] = judge_named(cal.audit_judges([broken]), "a").items.problems
    assert problem.reason == 'rubric: F1: "high" is not a number'


def test_scores_of_projectscylla_are_called_score() -> None:
    scylla = {
        "score": 0.75,
        "passed": True,
        "criteria_scores": {"c": {"items": items((1, 1), (1, 2))}},
    }
    audit = cal.audit_judges([record("q1", scylla)])
    found = judge_named(audit, "judge 1")
    assert (found.items.checked, found.items.equal, found.items.worst[0].items) == (1, 0, 2 / 3)
    plain = cal.audit_judges([record("q1", {"score": 4, "passed": True})])
    assert judge_named(plain, "judge 1").measures["mean_score"].value is None


# --- nulls with a reason ---


def test_one_judge_has_nobody_to_compare_with() -> None:
    audit = cal.audit_judges([record(f"q{n}", judgment(score=n / 10)) for n in range(5)])
    found = judge_named(audit, "j1").measures
    reason = "only one judge: there is no other to compare with"
    assert (found["bias"].reason, found["pass_bias"].reason) == (reason, reason)
    agreement = only(audit).agreement
    assert {
        each.reason for each in (*agreement.passed.values(), *agreement.weighted_score.values())
    } == {reason}
    assert agreement.pairs == ()
    assert reason in " ".join(str(audit).split())


def test_judges_who_never_disagree() -> None:
    rows = [record(f"q{n}", judgment("a"), judgment("b")) for n in range(5)]
    audit = cal.audit_judges(rows)
    agreement = only(audit).agreement
    assert agreement.passed["percent_agreement"].value == 1
    assert (
        agreement.passed["fleiss_kappa"].reason
        == "all ratings are the same: nothing tells agreement from chance"
    )
    bias = judge_named(audit, "a").measures["bias"]
    assert (bias.value, bias.low, bias.interval) == (0.0, None, None)
    assert (
        "intervals of mean_score, bias, pass_bias: too few values, all of one cluster, or all the same"
        in str(audit)
    )


def test_a_judge_with_one_judgement() -> None:
    rows = [
        record(f"q{n}", judgment("a", n / 10), *([judgment("b")] if n == 3 else []))
        for n in range(5)
    ]
    audit = cal.audit_judges(rows)
    b = judge_named(audit, "b")
    assert (b.judgments, b.missing) == (1, 4)
    assert b.measures["bias"].value == pytest.approx(0.2)
    assert b.measures["bias"].low is None
    assert (
        only(audit).agreement.pairs[0].passed["cohen_kappa"].reason
        == "only one unit is rated by both"
    )


def test_judges_who_share_no_record() -> None:
    audit = cal.audit_judges([record("q1", judgment("a")), record("q2", judgment("b"))])
    assert (
        judge_named(audit, "a").measures["bias"].reason
        == "no record has its value and another judge's"
    )


# --- names of judges ---


def test_judges_without_a_name_are_numbered_by_their_place() -> None:
    rows = [record("q1", judgment(None), judgment("b"), {"passed": True}, judgment(" "))]
    audit = cal.audit_judges(rows)
    assert [judge.judge for judge in only(audit).judges] == ["b", "judge 1", "judge 3", "judge 4"]
    assert audit.notices == (
        "judgements without the name of their judge: 3; they are numbered by their place in the record",
    )


def test_a_judge_who_judges_a_record_twice_is_two() -> None:
    rows = [record("q1", judgment("a", 0.1), judgment("a", 0.3), judgment("a #2", 0.5))]
    audit = cal.audit_judges(rows)
    scores = {judge.judge: judge.measures["mean_score"].value for judge in only(audit).judges}
    assert scores == {"a": 0.1, "a #2": 0.3, "a #2 #2": 0.5}
    assert "has judged the record before: 2" in audit.notices[0]


def test_names_that_only_look_alike_are_different() -> None:
    rows = [record("q1", judgment("a", 0.1), judgment("a\0", 0.3), judgment("A", 0.5))]
    assert [judge.judge for judge in only(cal.audit_judges(rows)).judges] == ["A", "a", "a\0"]


def test_many_judges() -> None:
    rows = [
        record(f"q{n}", *(judgment(f"j{k}", passed=(n * k) % 3 > 0) for k in range(30)))
        for n in range(4)
    ]
    audit = cal.audit_judges(rows)
    reason = "more than 20 judges: pairs of them are not compared"
    agreement = only(audit).agreement
    assert (agreement.pairs, audit.notices) == ((), (reason,))
    assert agreement.passed["cohen_kappa_mean"].reason == reason
    assert agreement.passed["fleiss_kappa"].value is not None
    for votes in ([{"passed": True}] * 100_000, [judgment()] * 100_000):
        with pytest.raises(cal.DataError, match="100,000 different judges"):
            cal.audit_judges([{"id": "q", "judgments": votes}])


# --- what is refused ---


@pytest.mark.parametrize(
    ("judgments", "problem"),
    [
        (5, "5 is no list of judgements"),
        ("good", '"good" is not JSON'),
        ({"j1": {"passed": True}}, "is no list of judgements"),
        ([True], "judgement 1 is not an object"),
        ([judgment(), None], "judgement 2 is not an object"),
        ([judgment(score=1.5)], "judgement by j1: weighted_score: 1.5 is outside [0, 1]"),
        ([judgment(score=-0.1)], "judgement by j1: weighted_score: -0.1 is outside [0, 1]"),
        ([{**judgment(), "weighted_score": "high"}], 'weighted_score: "high" is not a number'),
        ([{**judgment(), "weighted_score": True}], "weighted_score: true is not a number"),
        ([{**judgment(), "passed": "yes"}], 'passed: "yes" is not true or false'),
        ([{**judgment(), "judge": ["j1"]}], 'judgement 1: judge: ["j1"] is a list, not a text'),
    ],
)
def test_bad_judgements_name_file_row_and_field(
    tmp_path: Path, judgments: Any, problem: str
) -> None:
    good = json.dumps(record("q1", judgment()))
    path = tmp_path / "judged.jsonl"
    path.write_text(f"{good}\n\n{json.dumps({'id': 'q2', 'judgments': judgments})}\n{good}\n")
    said = refused("audit", path)
    assert f"{path}:3: judgments: " in said
    assert problem in said
    assert "--on-bad skip" in said
    audit = cal.audit_judges(path, on_bad="skip")
    assert (audit.records, audit.notices) == (2, ("1 bad rows were left out",))
    theirs = tmp_path / "theirs.jsonl"
    theirs.write_text(path.read_text().replace('"judgments"', '"votes"'))
    assert f"{theirs}:3: votes: " in refused("audit", theirs, "--map", "judgments=votes")


def test_not_a_number_is_a_null_and_infinity_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    path.write_text(
        '{"id": "q1", "judgments": [{"judge": "a", "weighted_score": NaN, "passed": null}]}\n'
    )
    found = judge_named(cal.audit_judges(path), "a").measures
    assert (found["mean_score"].missing, found["mean_score"].reason) == (
        1,
        "no judgement has a weighted_score",
    )
    assert found["pass_rate"].reason == "no judgement says whether it passed"
    path.write_text(path.read_text().replace("NaN", "1e999"))
    assert "1e999 is not a finite number" in refused("audit", path)


def test_nested_too_deep(tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    path.write_text(f'{{"id": "q1", "judgments": {"[" * 20_000}{"]" * 20_000}}}\n')
    assert "nested too deep" in refused("audit", path)


def test_an_empty_file_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    result = run("audit", path)
    assert (result.exit_code, result.stdout) == (3, "No records.\n")
    assert "no records in" in result.stderr
    assert json.loads(run("audit", path, "--format", "json").stdout)["groups"] == []
    assert run("audit", path, "--format", "markdown").stdout == "No records.\n"
    assert run("audit", path, "--format", "csv").stdout.startswith(
        "judge_1,judge_2,on,measure,value"
    )


def test_no_judgement_in_the_lists_is_incomplete(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "judged.jsonl", [record("q1"), record("q2", judgment(), error="x")]
    )
    result = run("audit", path)
    assert result.exit_code == 3
    assert "no judgements in" in result.stderr
    assert result.stdout.startswith(
        "0 of 2 records judged; 0 judgements by 0 judges; failed calls left out: 1"
    )
    [group] = json.loads(run("audit", path, "--format", "json").stdout)["groups"]
    assert group["agreement"]["passed"]["fleiss_kappa"]["reason"] == "there are no judgements"


def test_records_without_the_field_are_a_mistake(tmp_path: Path) -> None:
    """The file is not empty: the question does not fit it, as with a `--by` that nobody has."""
    path = write_lines(tmp_path / "runs.jsonl", [{"id": "q1", "judgements": [judgment()]}])
    said = refused("audit", path)
    assert "no record has judgments" in said
    assert "--map judgments=NAME: did you mean judgements?" in said
    assert run("audit", path, "--map", "judgments=judgements").exit_code == 0


def test_options_that_fit_no_record_are_mistakes(panel: Path, tmp_path: Path) -> None:
    assert "--by tier: no record has a value in tier" in refused("audit", panel, "--by", "tier")
    assert "--cluster repo: no record" in refused("audit", panel, "--cluster", "repo")
    assert "--map id=key: no record" in refused("audit", panel, "--map", "id=key")
    assert "--map name=…" in refused("audit", panel, "--map", "name=key")
    assert "not between 0 and 1" in refused("audit", panel, "--confidence", "95")
    assert "--worst -1: negative" in refused("audit", panel, "--worst", "-1")
    assert "No such file" in refused("audit", panel, "--weights", tmp_path / "none.yaml")
    some = write_lines(
        tmp_path / "some.jsonl", [record("q1", judgment()), {"judgments": [judgment()]}]
    )
    assert "1 of 2 records have no id" in refused("audit", some)


def test_rows_are_numbered_where_none_has_an_id() -> None:
    rows = [{"judgments": [judgment(items=items((1, 1)))]}, {"judgments": [judgment()]}]
    audit = cal.audit_judges(rows)
    assert audit.notices == ("no record has an id: rows are numbered, each a task of its own",)
    assert only(audit).clusters == 2
    assert judge_named(audit, "j1").items.worst[0].id == "1"


# --- files ---


def test_parquet_csv_and_frames_say_the_same(tmp_path: Path) -> None:
    rows = [
        record(
            f"q{n}",
            judgment("a", n / 10, items=items((1, 1), (0, 2))),
            judgment("b", 0.4, passed=n > 3),
            tier="T0",
        )
        for n in range(6)
    ]
    frame = pl.DataFrame(rows, strict=False)
    frame.write_parquet(tmp_path / "judged.parquet")
    texts = [{**row, "judgments": json.dumps(row["judgments"])} for row in rows]
    pl.DataFrame(texts).write_csv(tmp_path / "judged.csv")
    lines = write_lines(tmp_path / "judged.jsonl", rows)

    def told(data: Any) -> list[Any]:
        groups = cal.audit_judges(data, by="tier").to_dict()["groups"]
        for judge in groups[0]["judges"]:
            for each in judge["items"]["worst"]:
                each["where"] = each["where"].rpartition(":")[2]
        return list(groups)

    assert told(lines) == told(rows) == told(frame)
    assert told(lines) == told(tmp_path / "judged.parquet") == told(tmp_path / "judged.csv")


# --- the command ---

TABLE = """
6 of 6 records judged; 12 judgements by 2 judges
judges

 judge    n   missing                 pass rate      mean score              bias        pass bias
 ─────────────────────────────────────────────────────────────────────────────────────────────────
 kind     6         0   0.8333 [0.4365, 0.9699]   0.5500 ± 0.24   +0.2333 ± 0.086   +0.3333 ± 0.54
 strict   6         0             0.5000 ± 0.31   0.3167 ± 0.28   −0.2333 ± 0.086   −0.3333 ± 0.54
"""


def test_the_table(tmp_path: Path) -> None:
    marks = [(0.1, 0.3), (0.2, 0.5), (0.0, 0.3), (0.7, 0.8), (0.4, 0.6), (0.5, 0.8)]
    rows = [
        record(
            f"q{n}",
            judgment("strict", low, passed=low > 0.3),
            judgment("kind", high, passed=high > 0.3 or n == 2),
        )
        for n, (low, high) in enumerate(marks)
    ]
    result = run("audit", write_lines(tmp_path / "judged.jsonl", rows))
    assert (result.exit_code, result.stderr) == (0, "")
    shown = "\n".join(line.rstrip() for line in result.stdout.splitlines())
    assert f"\n{shown}".startswith(TABLE)
    assert "scores against" not in shown, "no judgement carries items"
    assert " kind – strict\n" in shown


def test_json_is_the_contract(panel: Path, tmp_path: Path) -> None:
    shown = run("audit", panel, "--format", "json").stdout
    found = json.loads(shown)
    assert list(found) == ["schema", "version", "seed", "confidence", "groups"]
    assert (found["schema"], found["seed"], found["confidence"]) == ("calipers.audit/1", 0, 0.95)
    [group] = found["groups"]
    assert (
        list(group) == "by records errors judged clusters judgments items judges agreement".split()
    )
    names = "judge judgments missing pass_rate mean_score bias pass_bias items_equal items_difference items"
    assert list(group["judges"][0]) == names.split()
    assert (
        list(group["judges"][0]["bias"])
        == "value low high stderr interval n missing reason".split()
    )
    assert list(group["agreement"]["passed"]) == [
        "percent_agreement",
        "cohen_kappa_mean",
        "fleiss_kappa",
        "krippendorff_alpha_nominal",
    ]
    assert list(group["agreement"]["weighted_score"]) == ["krippendorff_alpha_interval"]
    [pair, *_] = group["agreement"]["pairs"]
    assert (pair["judges"], list(pair["passed"]), list(pair["weighted_score"])) == (
        ["a", "b"],
        ["percent_agreement", "cohen_kappa"],
        ["spearman"],
    )
    assert run("audit", panel, "--format", "json", "-o", tmp_path / "audit.json").stdout == ""
    assert (tmp_path / "audit.json").read_text(encoding="utf-8") == shown
    assert json.loads(run("audit", panel, "--format", "json", "--seed", 7).stdout)["seed"] == 7


def test_csv_has_a_row_per_measure(panel: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("audit", panel, "--format", "csv").stdout)))
    audit = cal.audit_judges(panel)
    [bias] = [row for row in rows if (row["judge_1"], row["measure"]) == ("a", "bias")]
    assert float(bias["value"]) == judge_named(audit, "a").measures["bias"].value
    [kappa] = [
        row
        for row in rows
        if (row["judge_1"], row["judge_2"], row["measure"]) == ("a", "b", "cohen_kappa")
    ]
    assert (kappa["on"], kappa["missing"]) == ("passed", "")
    assert len(rows) == 3 * 6 + 5 + 3 * 3


HOSTILE = "\x1b[2J\x1b[31mevil | `<script>` [x](http://x)\n" + "long" * 100


def test_hostile_names_are_harmless(tmp_path: Path) -> None:
    rows = [
        record(
            HOSTILE,
            judgment(HOSTILE, 0.1, items=items((1, 1))),
            judgment("b", 0.5, items={HOSTILE: {"achieved": 1}}),
        )
    ]
    path = write_lines(tmp_path / "judged.jsonl", rows)
    for output_format in ("table", "markdown"):
        shown = run("audit", path, "--format", output_format, "--by", "id").stdout
        assert "\x1b" not in shown
        assert "evil" in shown
    assert "<script>" not in run("audit", path, "--format", "markdown").stdout
    page = cal.audit_judges(path)._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    bad = write_lines(tmp_path / "bad.jsonl", [record("q", judgment(HOSTILE, 7.0))])
    assert "\x1b" not in refused("audit", bad)


def test_items_and_reasons_are_shown_everywhere(tmp_path: Path) -> None:
    rows = [
        record("q1", judgment("a", 0.25, items=items((1, 1))), judgment("b", 0.5)),
        record("q2", judgment("a", 0.5, items={"F1": {"achieved": 1}}), judgment("b", 0.5)),
    ]
    path = write_lines(tmp_path / "judged.jsonl", rows)
    audit = cal.audit_judges(path)
    for shown in (
        str(audit),
        run("audit", path, "--format", "markdown").stdout,
        audit._repr_html_(),
    ):
        assert "0 of 1" in shown
        assert "−0.7500" in shown
        assert f"items of a in q2 ({path}:2): item F1 has no max" in " ".join(shown.split())
        assert "items_equal (b), items_difference (b): no judgement carries items" in shown


def test_columns_without_room_stand_below() -> None:
    out = io.StringIO()
    audit_text(cal.audit_judges(PANEL), Console(file=out, width=60, highlight=False))
    assert max(map(len, out.getvalue().splitlines())) <= 60
    assert "pass bias" in out.getvalue()


# --- the group of commands ---


def test_what_is_no_subcommand_is_a_kind_mistake() -> None:
    assert "--model" in run("runs.jsonl", "--rubric", "r.yaml").stderr  # judges files
    assert "did you mean audit?" in refused("audits", "x.jsonl")
    assert run("--help").exit_code == 0
    assert run("audit").exit_code == 2


def test_a_default_command_takes_what_is_no_subcommand() -> None:
    @click.group(cls=JudgeGroup)
    def commands() -> None: ...

    @commands.command()
    @click.argument("files", nargs=-1)
    @click.option("--rubric")
    def live(files: tuple[str, ...], rubric: str | None) -> None:
        click.echo(f"{files} {rubric}")

    assert isinstance(commands, JudgeGroup)
    commands.default = "live"
    for args in (
        ["a.jsonl", "--rubric", "r"],
        ["--rubric", "r", "a.jsonl"],
        ["live", "a.jsonl", "--rubric", "r"],
    ):
        assert CliRunner().invoke(commands, args).output == "('a.jsonl',) r\n"


# --- real data ---


def three_judges() -> list[Row]:
    text = (FOLDER / "judge/scylla_three_judges.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def scylla() -> list[Row]:
    """A record per run, with the judgements of its judges."""
    runs: dict[tuple[Any, ...], Row] = {}
    for row in three_judges():
        key = (row["task"], row["tier"], row["subtest"], row["run"])
        run_record = runs.setdefault(key, record("/".join(map(str, key)), suite=row["task"]))
        run_record["judgments"].append(
            judgment(str(row["judge_number"]), row["score"], passed=row["passed"])
        )
    return list(runs.values())


@needs_shared_data
def test_projectscyllas_three_judges() -> None:
    figures = expected()["judge"]["scylla_three_judges.jsonl"]
    rows = scylla()
    audit = cal.audit_judges(rows)
    group = only(audit)
    alpha = group.agreement.weighted_score["krippendorff_alpha_interval"].value
    assert alpha == pytest.approx(figures["krippendorff_interval"], abs=1e-9)
    for pair in group.agreement.pairs:
        found = pair.weighted_score["spearman"]
        figure = figures["-".join(pair.judges)]
        assert found.n == figure["n"]
        assert found.value == pytest.approx(figure["spearman"], abs=1e-9)
    for judge in group.judges:
        own = [
            (
                each["weighted_score"],
                [o["weighted_score"] for o in row["judgments"] if o is not each],
            )
            for row in rows
            for each in row["judgments"]
            if each["judge"] == judge.judge
        ]
        assert judge.judgments == len(own)
        assert judge.measures["mean_score"].value == pytest.approx(fmean(score for score, _ in own))
        apart = [score - fmean(others) for score, others in own]
        assert judge.measures["bias"].value == pytest.approx(fmean(apart))
    first, second = cal.audit_judges(rows, by="suite").groups
    assert (first.judgments, second.judgments) == (1058, 1080)
    assert first.agreement.passed["percent_agreement"].value == 1


@needs_shared_data
def test_llmbars_published_accuracies() -> None:
    """A judge passes where it prefers the answer that people prefer."""
    text = (FOLDER / "judge/llmbar_judgements.jsonl").read_text(encoding="utf-8")
    cases: dict[str, Row] = {}
    for row in map(json.loads, filter(None, text.split("\n"))):
        case = cases.setdefault(row["id"], record(row["id"], subset=row["subset"]))
        right = str(row["judge_label"]) == str(row["human_label"])
        case["judgments"].append(judgment(f"{row['judge']}, {row['prompt']}", None, passed=right))
    audit = cal.audit_judges(list(cases.values()), by="subset")
    judges = {
        (group.by["subset"], judge.judge): judge for group in audit.groups for judge in group.judges
    }
    figures = expected()["judge"]["llmbar_judgements.jsonl"]
    assert len(figures) == len(judges)
    for figure in figures:
        judge = judges[figure["subset"], f"{figure['judge']}, {figure['prompt']}"]
        assert judge.judgments == figure["n"]
        assert judge.measures["pass_rate"].value == pytest.approx(figure["acc_false"])
        agreed, of = map(int, figure["published"]["correct_False"].split(" = ")[0].split(" / "))
        assert judge.measures["pass_rate"].value == agreed / of


@needs_shared_data
def test_projectscyllas_scores_against_the_share_of_points() -> None:
    """The file has Σ achieved / Σ max of each judgement, above 1 in three, in place of the items."""
    figures: dict[str, list[tuple[float, float]]] = {}
    runs: dict[tuple[Any, ...], Row] = {}
    for row in three_judges():
        share = row["impl_rate"]
        more: Row = {} if share is None else {"items": items((share, 1))}
        key = (row["task"], row["tier"], row["subtest"], row["run"])
        run_record = runs.setdefault(key, record("/".join(map(str, key)), suite=row["task"]))
        run_record["judgments"].append(judgment(row["judge"], row["score"], **more))
        if share is not None and share <= 1:
            figures.setdefault(row["task"], []).append((row["score"], share))
    for group in cal.audit_judges(list(runs.values()), by="suite").groups:
        pairs = figures[group.by["suite"]]
        equal = sum(abs(score - share) <= half_a_unit(score) + 1e-9 for score, share in pairs)
        assert (group.items_checked, group.items_equal) == (len(pairs), equal)
        assert (group.items_checked, group.items_equal) == {
            "test-001": (1055, 29),
            "test-003": (1079, 982),
        }[group.by["suite"]]


def half_a_unit(score: float) -> float:
    decimals = len(repr(score).partition(".")[2])
    return float(max(0.5 * 10 ** -max(2, decimals), 1e-6))


@needs_shared_data
def test_projectscyllas_items() -> None:
    """Twelve judgements of a dry run: the items pooled, and by the weights of its rubric."""
    rows = []
    for folder in sorted((FOLDER / "native_logs/scylla_dryrun").glob("T*/*/run_01/judge")):
        judgments = [
            json.loads(path.read_text()) for path in sorted(folder.glob("*/judgment.json"))
        ]
        rows.append({"id": str(folder), "judgments": judgments})
    pooled = only(cal.audit_judges(rows))
    assert (pooled.items_checked, pooled.items_equal) == (12, 7)
    weights = {
        "functional": 0.35,
        "code_quality": 0.2,
        "proportionality": 0.15,
        "build_pipeline": 0.1,
        "overall_quality": 0.2,
    }
    weighted = only(cal.audit_judges(rows, weights=weights))
    assert (weighted.items_checked, weighted.items_equal) == (12, 6)
    assert [judge.items.equal for judge in weighted.judges] == [0, 2, 4]
    worst = weighted.judges[0].items.worst[0]
    assert (worst.score, Path(worst.id).parts[-4]) == (0.95, "T2")
    assert worst.items == pytest.approx(1.0)
