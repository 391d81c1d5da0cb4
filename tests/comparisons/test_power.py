"""Power of finished runs: against plain Python, from the command line and in a notebook."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.comparisons.sizing import MetricPower
from calipers.statistics.power import PowerPlan
from calipers.support.errors import UsageError
from tests import commands
from tests.files import write_lines
from tests.shared_data import FOLDER, needs_shared_data

Record = dict[str, Any]


run, refused = partial(commands.run, "power"), partial(commands.refused, "power")


def records(runs: Mapping[str, Sequence[Any]], field: str = "correct", **more: Any) -> list[Record]:
    """A row per run; zeros and ones say whether it was right."""
    read = bool if field == "correct" else lambda value: value
    return [
        {"id": task, field: read(value), **more}
        for task, values in runs.items()
        for value in values
    ]


def tasks(*patterns: Sequence[Any], times: int = 1) -> dict[str, Sequence[Any]]:
    """Tasks that were run with these results, each pattern so many times."""
    return {f"t{place}": pattern for place, pattern in enumerate([*patterns] * times)}


def the_only(found: cal.PowerAnalysis, name: str = "accuracy") -> MetricPower:
    (group,) = found.groups
    return group.metrics[name]


# In plain Python


def reach(power: float = 0.8, confidence: float = 0.95) -> tuple[float, float]:
    normal = NormalDist()
    return normal.inv_cdf((1 + confidence) / 2), normal.inv_cdf(power)


def needed(delta: float, variance: float, **sure: float) -> int:
    alpha, beta = reach(**sure)
    return math.ceil(((alpha + beta) / delta) ** 2 * variance + alpha**2 / 2)


def seen(tasks: int, variance: float, **sure: float) -> float:
    alpha, beta = reach(**sure)
    return (alpha + beta) * math.sqrt(variance / (tasks - alpha**2 / 2))


def components(runs: Iterable[Sequence[float]]) -> tuple[float, float, float]:
    """The variance between and within tasks, and the mean of 1 / runs."""
    each = [list(map(float, values)) for values in runs]
    within = statistics.fmean(statistics.variance(values) for values in each if len(values) > 1)
    share = statistics.fmean(1 / len(values) for values in each)
    means = [statistics.fmean(values) for values in each]
    return max(0.0, statistics.variance(means) - within * share), within, share


# One run


def test_repeated_runs_by_hand() -> None:
    found = the_only(cal.power(records(tasks((1, 1), (1, 0), (0, 0), (1, 0), times=5))))
    # Means 1, .5, 0, .5 five times: 2.5 / 19. Within: (0 + .5 + 0 + .5) / 4, over 2 runs.
    assert found.value == 0.5
    assert found.within == pytest.approx(0.25)
    assert found.between == pytest.approx(2.5 / 19 - 0.125)
    assert (found.tasks, found.runs, found.delta) == (20, 2.0, 0.05)
    assert found.difference is not None
    assert found.difference.between == pytest.approx(found.between)  # 2 · (1 − 0.5)
    assert found.difference.within == pytest.approx(0.5)
    between = 2.5 / 19 - 0.125
    assert found.plans == tuple(
        PowerPlan(runs=k, tasks=n, calls=k * n)
        for k in (1, 2, 4, 8, 16)
        for n in [needed(0.05, between + 0.5 / k)]
    )
    assert found.detectable == pytest.approx(seen(20, between + 0.25))
    assert found.reasons == {}


@given(
    runs=st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=4, max_size=12),
    correlation=st.floats(-0.9, 0.9),
    power=st.floats(0.5, 0.95),
    confidence=st.floats(0.8, 0.99),
)
def test_uneven_runs(
    runs: list[list[float]], correlation: float, power: float, confidence: float
) -> None:
    if all(len(values) == 1 for values in runs):
        runs[0] = runs[0] * 2
    rows = records(tasks(*([1000 * x for x in values] for values in runs)), "latency_ms")
    found = the_only(
        cal.power(
            rows, delta=50, power=power, confidence=confidence, correlation=correlation, runs=[3]
        ),
        "latency_mean_ms",
    )
    between, within, share = components([1000 * x for x in values] for values in runs)
    assert found.between == pytest.approx(between, rel=1e-6, abs=1e-6)
    assert found.within == pytest.approx(within, rel=1e-6, abs=1e-6)
    variance = 2 * (1 - correlation) * between
    if variance + 2 * within < 1e-3:
        return
    assert found.detectable == pytest.approx(
        seen(len(runs), variance + 2 * within * share, power=power, confidence=confidence), rel=1e-4
    )
    (plan,) = found.plans
    wanted = needed(50, variance + 2 * within / 3, power=power, confidence=confidence)
    assert abs(plan.tasks - wanted) <= 1  # rounded up on either side of a whole number
    assert plan.runs == 3


def test_single_runs() -> None:
    found = the_only(cal.power(records(tasks((1,), (0,), (1,), (1,), times=20)), delta=0.1))
    assert found.between == pytest.approx(15 / 79)
    assert found.within is None
    assert found.reasons == {"within": "no task was run twice"}
    assert found.plans == (
        PowerPlan(runs=1, tasks=needed(0.1, 15 / 79), calls=needed(0.1, 15 / 79)),
    )
    assert "mid-p McNemar" in found.notes[0]
    assert found.detectable == pytest.approx(seen(80, 15 / 79))
    assert needed(found.detectable or 0, 15 / 79) in (80, 81)  # but for rounding


def test_failed_calls_and_missing_values_are_left_out() -> None:
    rows = records(tasks((1, 0), (0, 0), (1, 1)))
    rows += [{"id": "t0", "correct": True, "error": "timeout: 60 s"}, {"id": "t9", "answer": "4"}]
    found = cal.power(rows)
    (group,) = found.groups
    assert (group.records, group.errors, group.tasks) == (8, 1, 4)
    assert group.metrics["accuracy"].tasks == 3
    assert group.metrics["accuracy"].runs == 2.0


def test_values_of_whole_tasks_are_planned_with_their_runs() -> None:
    answers = tasks(("a", "a", "b"), ("a", "a", "a"), ("a", "b", "c"), times=10)
    found = the_only(cal.power(records(answers, "answer")), "determinism_index")
    variance = statistics.variance([2 / 3, 1, 1 / 3] * 10)
    assert found.between == pytest.approx(variance)
    assert found.reasons == {"within": "a task has one value, of all its runs"}
    n = needed(0.05, variance)
    assert found.plans == (PowerPlan(runs=3, tasks=n, calls=3 * n),)
    assert found.detectable == pytest.approx(seen(30, variance))


def test_more_runs_than_there_are_show_only_when_named() -> None:
    runs = records(tasks([True, False], [True, True]), "passed")
    assert "pass_at_2" in cal.power(runs).groups[0].metrics
    assert "pass_at_3" not in cal.power(runs).groups[0].metrics
    assert cal.power(runs, metrics=["pass_at_3"]).groups[0].metrics["pass_at_3"].value is None


def test_noise_that_hides_the_tasks_is_said() -> None:
    found = the_only(cal.power(records(tasks((1, 0), times=30))))
    assert found.between == 0.0
    assert any("lost in it" in note for note in found.notes)


# Which metrics, which difference

MANY: list[Record] = [
    {
        "id": str(n),
        "correct": n % 3 > 0,
        "prob_correct": 0.3 + 0.05 * (n % 10),
        "latency_ms": 100 + n,
        "answer": str(n),
    }
    for n in range(30)
]


def test_the_metrics_that_have_a_direction_and_no_copy() -> None:
    (group,) = cal.power(MANY).groups
    named = list(group.metrics)
    assert named[0] == "accuracy"
    assert {"brier", "latency_mean_ms", "ece", "latency_p95_ms"} <= set(named)
    assert not {"usr", "error_rate", "sce", "total_tokens_mean"} & set(named)
    for name in ("ece", "latency_p95_ms"):
        assert group.metrics[name].value is None
        assert "no mean over rows or tasks" in group.metrics[name].reasons["value"]
    (group,) = cal.power(MANY, metrics=["usr", "accuracy", "prompt_tokens_mean"]).groups
    assert list(group.metrics) == ["usr", "accuracy", "prompt_tokens_mean"]
    usr, accuracy, absent = group.metrics.values()
    assert usr.value == pytest.approx(1 / 3)
    assert usr.plans == accuracy.plans
    assert set(absent.reasons.values()) == {"no record has prompt_tokens"}


def test_the_difference_to_see() -> None:
    (group,) = cal.power(MANY).groups
    assert group.metrics["brier"].delta == 0.05
    assert group.metrics["latency_mean_ms"].delta == pytest.approx(0.05 * 114.5)
    (group,) = cal.power(MANY, delta=2).groups
    assert group.metrics["latency_mean_ms"].delta == 2
    accuracy = group.metrics["accuracy"]
    assert accuracy.plans == ()
    assert accuracy.reasons["plans"] == "it cannot differ by 2, only by 1: a smaller --delta"
    assert accuracy.detectable is not None
    found = the_only(cal.power(records(tasks((0,), (0,)), "latency_ms")), "latency_mean_ms")
    assert found.delta is None
    assert "5 % of 0" in found.reasons["delta"]
    found = the_only(cal.power(MANY, metrics=["accuracy"], delta=1e-200))
    assert found.reasons == {
        "within": "no task was run twice",
        "plans": "more tasks than can be counted: a larger --delta",
    }


# What cannot be told


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        (tasks((1, 0, 1)), "a single task does not show how much others vary"),
        (tasks((1,), times=9), "nothing varies: every value is 1"),
        (tasks((0, 0), times=9), "nothing varies: every value is 0"),
        (tasks((1,), (0,)), "2 tasks are too few to see any difference that it can have"),
    ],
    ids=["one task", "all right", "all wrong", "two tasks"],
)
def test_nulls_have_reasons(runs: dict[str, Any], reason: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "a.jsonl", records(runs))
    result = run(data, "--metric", "accuracy", "--format", "json")
    assert result.exit_code == 0
    (group,) = json.loads(result.stdout)["groups"]
    found = group["metrics"]["accuracy"]
    assert found["detectable"] is None
    assert found["reasons"]["detectable"] == reason
    assert found["value"] is not None
    assert reason in run(data, "--metric", "accuracy").stdout


def test_a_constant_with_rounding_does_not_vary() -> None:
    found = the_only(
        cal.power(records(tasks((0.1, 0.1, 0.1), times=7), "latency_ms")), "latency_mean_ms"
    )
    assert found.reasons["plans"] == "nothing varies: every value is 0.1"


def test_values_beyond_squares() -> None:
    found = the_only(cal.power(records(tasks((1e200,), (1e100,)), "latency_ms")), "latency_mean_ms")
    assert set(found.reasons.values()) == {"values too large"}


def test_a_null_without_words_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="a null needs a reason"):
        MetricPower(reasons={})


# Two runs


def test_the_paired_difference_is_measured() -> None:
    base = records(tasks((0,), (1,), (1,), (0,), (0,), times=10))
    better = records(tasks((1,), (1,), (0,), (0,), (1,), times=10))
    found = cal.power(
        [*base, {"id": "x", "correct": True}], [*better, *records({"y": [1], "z": [1]})]
    )
    (group,) = found.groups
    assert (group.tasks, group.only_base, group.only_candidate) == (50, 1, 2)
    accuracy = group.metrics["accuracy"]
    assert (accuracy.value, accuracy.candidate) == (0.4, 0.6)
    assert accuracy.difference is not None
    assert accuracy.difference.between == pytest.approx(statistics.variance([1, 0, -1, 0, 1] * 10))
    assert accuracy.plans[0].tasks == needed(0.05, accuracy.difference.between)
    assert accuracy.detectable == pytest.approx(seen(50, accuracy.difference.between))


def test_two_repeated_runs() -> None:
    first = tasks((1, 0), (1, 1), (0, 0), (1, 0), times=10)
    second = tasks((1, 1, 1), (0, 1, 1), (0, 0, 1), (1, 1, 0), times=10)
    found = the_only(cal.power(records(first), records(second), runs=[2, 5, 2]))
    _, noise, _ = components(first.values())
    _, other_noise, _ = components(second.values())
    differences = [statistics.fmean(second[task]) - statistics.fmean(first[task]) for task in first]
    own = noise / 2 + other_noise / 3
    between = max(0.0, statistics.variance(differences) - own)
    assert found.difference is not None
    assert found.difference.between == pytest.approx(between, abs=1e-12)
    assert [plan.runs for plan in found.plans] == [2, 5]
    assert found.plans[0].tasks == needed(0.05, between + (noise + other_noise) / 2)
    assert found.detectable == pytest.approx(seen(40, between + own))
    assert found.runs == 2.5


@pytest.mark.parametrize("turned", [False, True])
def test_one_of_two_was_run_once(turned: bool) -> None:  # noqa: FBT001
    once, often = tasks((1,), (0,), (1,), times=10), tasks((1, 1), (1, 1), (0, 1), times=10)
    sides = records(once), records(often)
    found = the_only(cal.power(*(reversed(sides) if turned else sides), runs=[1, 4]))
    _, noise, _ = components(often.values())
    variance = statistics.variance([0, 1, -0.5] * 10)
    between = variance - noise - noise / 2
    assert found.difference is not None
    assert found.difference.between == pytest.approx(between)
    assert found.difference.within == pytest.approx(2 * noise)
    assert found.detectable == pytest.approx(seen(30, variance))
    assert [plan.tasks for plan in found.plans] == [
        needed(0.05, between + 2 * noise),
        needed(0.05, between + noise / 2),
    ]
    assert any("taken to vary like" in note for note in found.notes)


def test_equal_runs_tell_nothing() -> None:
    found = the_only(cal.power(MANY, MANY, metrics=["accuracy"]))
    assert found.reasons["detectable"] == "nothing varies: all tasks differ alike"


def test_a_side_without_the_values() -> None:
    other = [{"id": row["id"], "correct": True} for row in MANY]
    (group,) = cal.power(MANY, other).groups
    assert (
        group.metrics["latency_mean_ms"].reasons["value"] == "CANDIDATE: no record has latency_ms"
    )
    (group,) = cal.power(other, MANY, metrics=["latency_mean_ms"]).groups
    assert group.metrics["latency_mean_ms"].reasons["value"] == "BASE: no record has latency_ms"
    apart = [{"id": "a", "correct": True}, {"id": "b", "latency_ms": 1}]
    mixed = [{"id": "a", "latency_ms": 1}, {"id": "b", "correct": True}]
    found = the_only(cal.power(apart, mixed, metrics=["accuracy"]))
    assert found.reasons["value"] == "no task has a value in both files"


def test_groups_are_paired_with_their_like(tmp_path: Path) -> None:
    runs = tasks((1,), (0,), (1,), times=10)
    first = [*records(runs, tier="T0"), *records(runs, tier="T1")]
    second = [*records(tasks((0,), (0,), (1,), times=10), tier="T1"), *records(runs, tier="T2")]
    result = run(
        write_lines(tmp_path / "a.jsonl", first),
        write_lines(tmp_path / "b.jsonl", second),
        *("--by", "tier", "--format", "json"),
    )
    found = json.loads(result.stdout)
    (group,) = found["groups"]
    assert group["by"] == {"tier": "T1"}
    assert group["tasks"] == 30
    assert group["metrics"]["accuracy"]["candidate"] == pytest.approx(1 / 3)
    assert [notice.rpartition(": ")[2] for notice in found["notices"]] == ["T0", "T2"]
    assert "a.jsonl, and left out: T0" in result.stderr


# The command line


@pytest.fixture
def data(tmp_path: Path) -> str:
    rows = records(tasks((1, 1), (1, 0), (0, 0), (1, 0), times=5), model="m0")
    return str(write_lines(tmp_path / "a.jsonl", [*rows, *records(tasks((1,)), model="m1")]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--delta", "0"), "--delta 0: not a difference"),
        (("--delta", "-0.1"), "--delta -0.1: not a difference"),
        (("--delta", "nan"), "--delta nan"),
        (("--delta", "inf"), "--delta inf"),
        (("--power", "1.5"), "--power 1.5: not between 0.05, which chance reaches, and 1"),
        (("--power", "0.05"), "--power 0.05"),
        (("--confidence", "95"), "--confidence 95: must be above 0 and below 1"),
        (("--correlation", "1"), "--correlation 1: not from -1 to below 1"),
        (("--correlation", "nan"), "--correlation nan"),
        (("--runs", "0,2"), "--runs 0,2: a task is run once or more"),
        (("--runs", "two"), "--runs two: not whole numbers"),
        (("--metric", "acuracy"), "did you mean accuracy?"),
        (("--by", "modle"), "did you mean model?"),
        (("--map", "correct=passed"), "--map correct=passed: no record has a value in passed"),
        (("--map", "id=task"), "--map id=NAME"),
        (("--delta", "much"), "not a valid float"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_refused(data: str, options: Sequence[str], said: str) -> None:
    assert said in refused(data, *options)


def test_files_that_share_no_task(data: str, tmp_path: Path) -> None:
    other = write_lines(tmp_path / "b.jsonl", records({"q": (1,), "r": (0,)}, model="m2"))
    message = refused(data, other)
    assert "no id is in both" in message
    assert "--map id=NAME" in message
    assert "no group of --by model is in both" in refused(data, other, "--by", "model")


def test_data_without_anything_to_measure(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "a.jsonl", [{"id": "1", "outcome": True}])
    assert "--map correct=passed" in refused(data)
    assert "no such file" in refused(tmp_path / "none.jsonl")
    assert "read once" in refused("-", "-")


@pytest.mark.parametrize("output_format", ["table", "json", "csv", "markdown"])
@pytest.mark.parametrize("emptied", [0, 1])
def test_no_records(data: str, tmp_path: Path, output_format: str, emptied: int) -> None:
    files = [data, data]
    files[emptied] = str(write_lines(tmp_path / "none.jsonl", []))
    result = run(*files, "--format", output_format)
    assert result.exit_code == 3
    assert "no records in" in result.stderr


def test_pooled_systems_are_said(data: str) -> None:
    assert "up to 2 models of a task count as its runs; --by model" in run(data).stderr
    assert run(data, "--by", "model").stderr == ""


TABLE = """\
m0: 20 tasks, 40 records

 metric       value   between   within   could see   to see   tasks at 1 run   at 2   at 8
 ─────────────────────────────────────────────────────────────────────────────────────────
 accuracy       0.5   0.00658    0.250       0.334     0.05            1,593    808    219
 stability   0.5000     0.263        —       0.338     0.05                     829

To detect a difference of 0.05 in accuracy with power 0.8 you need 1,593 tasks at 1 run each, or 219 at 8.
With 20 tasks at 2 runs each, this run could have detected a difference of 0.334.
"""


def test_the_table(data: str, tmp_path: Path) -> None:
    result = run(data, "--by", "model", "--runs", "1,2", "--runs", "8")
    assert result.exit_code == 0
    shown = [line.rstrip() for line in result.stdout.splitlines()]
    wanted = TABLE.splitlines()
    assert shown[: len(wanted)] == wanted
    assert "m1: 1 task, 1 record" in shown
    text = result.stdout
    assert "stability (within): a task has one value, of all its runs [m0]" in text
    assert "accuracy: a single task does not show how much others vary [m1]" in text
    assert "correlated by 0.5 (--correlation)" in " ".join(text.split())
    assert "0.05 for metrics in [0, 1], 5 % of the value for others" in text
    assert "mid-p McNemar" in text
    assert run(data, "--by", "model", "-o", tmp_path / "t.txt").stdout == ""
    assert "tasks at 1 run" in (tmp_path / "t.txt").read_text(encoding="utf-8")


def test_a_narrow_terminal_gets_two_tables(data: str) -> None:
    from rich.console import Console  # noqa: PLC0415

    from calipers.reports.documents import show  # noqa: PLC0415

    out = io.StringIO()
    show(cal.power(data, by="model"), Console(file=out, width=70))
    assert "…" not in out.getvalue()
    assert out.getvalue().count(" metric ") == 3  # two for m0, one for m1 without a plan


def test_json_csv_and_markdown(data: str) -> None:
    result = run(data, "--by", "model", "--metric", "accuracy", "--format", "json")

    found = commands.strict(result.stdout)
    assert found["schema"] == "calipers.power/1"
    assert found["settings"]["delta"] is None
    assert found["settings"]["runs"] == [1, 2, 4, 8, 16]
    assert found["candidate"] is None
    accuracy = found["groups"][0]["metrics"]["accuracy"]
    assert accuracy["plans"][0] == {"runs": 1, "tasks": 1593, "calls": 1593}
    api = cal.power(data, by="model", metrics=["accuracy"])
    assert api.to_json() + "\n" == result.stdout
    assert "&lt;" not in api._repr_html_()

    text = run(data, "--by", "model", "--metric", "accuracy", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["model"], row["planned_runs"]) for row in rows] == [
        *(("m0", str(runs)) for runs in (1, 2, 4, 8, 16)),
        ("m1", ""),
    ]
    assert float(rows[0]["within"]) == accuracy["within"]
    assert rows[-1]["reason"] == "a single task does not show how much others vary"

    lines = run(data, "--by", "model", "--format", "markdown").stdout.splitlines()
    assert lines[0] == "**m0: 20 tasks, 40 records**"
    widths = {line.count("|") for line in lines[2:6]}
    assert len(widths) == 1


def test_names_from_outside_cannot_drive_the_terminal() -> None:
    found = cal.power(records(tasks((1,), (0,)), model="\x1b[31m|<b>"), by="model")
    assert "\x1b" not in str(found)
    assert "<b>" not in found._repr_html_()
    assert "\\|&lt;b>" in found.to_markdown()


def test_tables_in_python() -> None:
    frame = pl.DataFrame(MANY)
    assert cal.power(frame, frame).to_dict() == cal.power(frame.to_dicts(), MANY).to_dict() | {
        "base": "<table>",
        "candidate": "<table>",
    }


# Real data

TAU = FOLDER / "agent_runs" / "tau_airline_gpt4o_runs.jsonl"
GSM8K = FOLDER / "reasoning" / "gsm8k_openai_2models.jsonl"


@needs_shared_data
def test_agent_runs() -> None:
    runs = defaultdict(list)
    for line in TAU.read_text(encoding="utf-8").split("\n")[:-1]:
        row = json.loads(line)
        runs[row["task"]].append(float(row["passed"]))
    result = run(TAU, *("--map", "id=task", "--map", "correct=passed", "--format", "json"))
    (group,) = json.loads(result.stdout)["groups"]
    found = group["metrics"]["accuracy"]
    between, within, share = components(runs.values())
    assert (found["tasks"], found["runs"]) == (25, 4.0)
    assert found["between"] == pytest.approx(between)
    assert found["within"] == pytest.approx(within)
    assert found["detectable"] == pytest.approx(seen(25, between + 2 * within * share))
    assert [plan["tasks"] for plan in found["plans"]] == [
        needed(0.05, between + 2 * within / k) for k in (1, 2, 4, 8, 16)
    ]
    assert found["plans"][0]["tasks"] == 1134


@needs_shared_data
def test_two_models_on_the_same_questions() -> None:
    rows = pl.read_ndjson(GSM8K)
    sides = [part for _, part in sorted(rows.partition_by("model", as_dict=True).items())]
    large, small = sides
    asked: dict[str, Any] = {
        "metrics": ["accuracy"],
        "delta": 0.03,
        "map": {"correct": "source_correct"},
    }
    found = the_only(cal.power(large, small, **asked))
    both = large.join(small, on="id", suffix="_2")
    change = both["source_correct_2"].cast(pl.Int64) - both["source_correct"].cast(pl.Int64)
    variance = statistics.variance(change.to_list())
    assert found.tasks == 1319
    assert found.plans[0].tasks == needed(0.03, variance)
    assert found.detectable == pytest.approx(seen(1319, variance))
    # The questions' scores correlate less than is taken for granted without a second run.
    alone = the_only(cal.power(large, **asked))
    assert alone.plans[0].tasks < found.plans[0].tasks


@pytest.mark.parametrize("metric", ["accuracy", "brier"])
def test_a_width_takes_more_than_a_few_tasks_where_all_are_alike(metric: str) -> None:
    def rows(tasks: int) -> list[dict[str, Any]]:
        return [{"id": str(n), "correct": True, "prob_correct": 0.99} for n in range(tasks)]

    analysis = cal.power(rows(20), width=0.1, metrics=[metric, "latency_mean_ms"])
    [plan] = analysis.groups[0].metrics[metric].width_plans
    score = cal.score(rows(plan.tasks)).groups[0].metrics[metric]
    assert score.low is not None
    assert score.high is not None
    assert 0.09 < score.high - score.low <= 0.1
    assert f"no wider than 0.1 you need {plan.tasks} tasks" in str(analysis)


def test_a_plan_for_a_width_and_where_the_variance_comes_from() -> None:
    rows = [
        {"id": str(task), "correct": (task % 3 > 0) != (run == task % 4)}
        for task in range(60)
        for run in range(4)
    ]
    analysis = cal.power(rows, width=0.1, metrics=["accuracy"])
    found = analysis.groups[0].metrics["accuracy"]
    assert found.components is not None
    assert found.components.tasks + (found.components.runs or 0) == pytest.approx(1)
    of_four = next(plan for plan in found.width_plans if plan.runs == 4)
    scored = cal.score(rows).groups[0].metrics["accuracy"]
    assert scored.low is not None
    assert scored.high is not None
    expected = 60 * ((scored.high - scored.low) / 0.1) ** 2
    assert of_four.tasks == pytest.approx(expected, rel=0.1)
    assert "For an interval of accuracy no wider than 0.1 you need" in str(analysis)
    with pytest.raises(UsageError, match="--width"):
        cal.power(rows, width=0)
