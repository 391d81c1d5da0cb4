"""What an audit measures, and why a value is null."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import calipers as cal
from tests.conformance import interval_errors
from tests.examples import examples
from tests.judges.audit.judged_at_hand import PANEL, judge_named, judgment, only, record


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
    """CR2 with Bell and McCaffrey's degrees of freedom, in plain Python."""
    mean, rows = fmean(values), list(zip(values, clusters, strict=True))
    effects = [value - mean for value in values]
    stderr = sqrt(interval_errors._variance(effects, rows))
    reach = float(stats.t.ppf(0.975, interval_errors._degrees(effects, rows))) * stderr
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


@examples(60, deadline=None)
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


def test_failed_calls_and_records_without_judgments_are_counted() -> None:
    rows = [*PANEL, record("q4", judgment("a"), error="timeout: 120 s"), {"id": "q5"}, record("q6")]
    group = only(cal.audit_judges(rows))
    assert (group.records, group.errors, group.judged, group.judgments) == (7, 1, 4, 11)


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
        == "all ratings are the same: agreement cannot be told from chance"
    )
    bias = judge_named(audit, "a").measures["bias"]
    assert (bias.value, bias.low, bias.interval) == (0.0, None, None)
    assert (
        "intervals of mean_score, bias, pass_bias: too few values, all of one cluster, or all the same"
        in str(audit)
    )


def test_a_judge_with_one_judgment() -> None:
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
