"""`calipers rank`: what it finds, what it says of what it leaves out, and what it refuses."""

from __future__ import annotations

import csv
import io
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests import commands
from tests.commands import strict
from tests.comparisons.runs_at_hand import Record, right
from tests.files import write_lines

run, refused = partial(commands.run, "rank"), partial(commands.refused, "rank")


def systems(solved: dict[str, int], tasks: int = 100, **more: Any) -> list[Record]:
    """Each system solves the first so many tasks."""
    return [
        {"id": f"t{n:03}", "model": name, "correct": n < most, **more}
        for name, most in solved.items()
        for n in range(tasks)
    ]


def noisy(skills: dict[str, float], tasks: int = 60, runs: int = 1, seed: int = 0) -> list[Record]:
    chance = random.Random(seed)
    hard = [chance.random() for _ in range(tasks)]
    return [
        {
            "id": f"t{n:03}",
            "model": name,
            "run": number,
            "category": "even" if n % 2 == 0 else "odd",
            "correct": chance.random() < skill * (1 - 0.5 * hard[n]),
            "latency_ms": 100 * skill + 50 * chance.random(),
            "score": chance.random() * skill,
            "effort": 100 * skill + 50 * chance.random(),
        }
        for name, skill in skills.items()
        for n in range(tasks)
        for number in range(runs)
    ]


SKILLS = {"a": 0.3, "b": 0.9, "c": 0.95, "d": 0.6}


@pytest.mark.parametrize(
    "name", ["pass_at_1", "pass_hat_2", "stability", "mode_accuracy", "answer_entropy"]
)
def test_what_is_counted_per_task_is_ranked_as_it_is_scored(name: str) -> None:
    records = [
        {
            **each,
            "passed": each["correct"],
            "target": "7",
            "answer": "7" if each["correct"] else "8",
        }
        for each in noisy(SKILLS, tasks=12, runs=3)
    ]
    ranked = cal.rank(records, metrics=[name]).to_dict()["systems"]
    scored = cal.score(records, by="model", metrics=[name]).groups
    expected = {group.by["model"]: group[name].value for group in scored}
    assert {each["by"]["model"]: each["value"] for each in ranked} == pytest.approx(expected)


def test_the_contract() -> None:
    found = cal.rank(noisy(SKILLS)).to_dict()
    assert found["schema"] == "calipers.rank/1"
    assert (found["metric"], found["better"], found["by"]) == ("accuracy", "higher", ["model"])
    values = [each["value"] for each in found["systems"]]
    assert values == sorted(values, reverse=True)
    assert len(found["pairs"]) == 6
    names = [each["by"]["model"] for each in found["systems"]]
    for each in found["systems"]:
        assert each["low"] <= each["value"] <= each["high"]
        assert each["rank_low"] <= each["rank"] <= each["rank_high"]
        assert each["n_tasks"] == 60
    of = {each["name"]: each for each in found["systems"]}
    for pair in found["pairs"]:
        assert names.index(pair["a"]) < names.index(pair["b"])
        difference = of[pair["a"]]["value"] - of[pair["b"]]["value"]
        assert pair["difference"] == pytest.approx(difference)
        assert pair["p_adjusted"] >= pair["p_value"]
        apart = pair["p_adjusted"] < 0.05
        assert apart == (not pair["low"] <= 0 <= pair["high"])
        assert apart != bool(set(of[pair["a"]]["group"]) & set(of[pair["b"]]["group"]))


def test_two_systems_are_compared_as_compare_does() -> None:
    rows = noisy({"a": 0.5, "b": 0.8}, runs=3)
    ours, theirs = ([row for row in rows if row["model"] == name] for name in "ab")
    compared = cal.compare(ours, theirs, metrics="accuracy").pairs[0].metrics["accuracy"]
    [pair] = cal.rank(rows).pairs
    assert (pair.a, pair.b) == ("b", "a")
    assert (pair.p_value, pair.p_adjusted) == (compared.p_value, compared.p_value)
    assert pair.difference == pytest.approx(compared.difference)
    assert (pair.low, pair.high) == (compared.low, compared.high)


def test_systems_that_are_all_right_or_all_alike() -> None:
    found = cal.rank(systems({"a": 100, "b": 100, "c": 0}))
    first, second, last = found.systems
    assert (first.rank, second.rank, last.rank) == (1, 1, 3)
    assert (first.group, second.group, last.group) == ("a", "a", "b")
    assert first.low is not None
    assert first.low < 1 == first.high
    assert last.high is not None
    assert last.high > 0 == last.low
    assert [each.name for each in found.metrics[0].best] == ["a", "b"]


def test_lower_is_better() -> None:
    found = cal.rank(noisy(SKILLS), metrics="mean(effort)", better="lower")
    assert [each.name for each in found.systems] == ["a", "d", "b", "c"]
    assert found.systems[0].group == "a"
    assert found.systems[0].rank_high == 1
    assert not found.notices
    turned = cal.rank(noisy(SKILLS), metrics="mean(effort)")
    assert [each.name for each in turned.systems] == ["c", "b", "d", "a"]
    assert any("--better lower" in notice for notice in turned.notices)
    own = cal.rank(noisy(SKILLS), metrics="latency_mean_ms", better="higher")
    assert own["latency_mean_ms"].better == "lower", "what a metric says itself holds"


def test_several_metrics() -> None:
    found = cal.rank(noisy(SKILLS), metrics=["accuracy", "mean(score)"])
    text = found.to_dict()
    assert text["metric"] == "accuracy"
    assert [each["metric"] for each in text["further"]] == ["mean(score)"]
    assert len(text["further"][0]["pairs"]) == 6
    with pytest.raises(KeyError):
        found["brier"]


@pytest.mark.parametrize("metric", ["p95(effort)", "sum(score)"])
def test_a_metric_without_a_value_per_task(metric: str) -> None:
    found = cal.rank(noisy(SKILLS, tasks=40), metrics=metric, resamples=1000)
    assert found.systems[-1].name == "a"
    for each in found.systems:
        assert each.low is not None
        assert each.value is not None
        assert each.high is not None
        assert each.low < each.value < each.high
    assert found.pairs[0].test == "t on a paired bootstrap"


def test_several_metrics_without_a_value_per_task() -> None:
    records = noisy({"m0": 0.5, "m1": 0.8}, tasks=40, runs=2)
    for at, record in enumerate(records):
        record |= {"prob_correct": (at * 7 % 20) / 20, "latency_ms": at % 13 + 1}
    names = ["ece", "auroc", "latency_p50_ms"]
    together = cal.rank(records, metrics=names)
    assert together.metrics == tuple(cal.rank(records, metrics=[name])[name] for name in names)


def test_tasks_that_a_system_lacks_are_said() -> None:
    rows = noisy(SKILLS)
    lacking = [row for row in rows if row["model"] != "b" or row["id"] >= "t010"]
    found = cal.rank(lacking)
    assert found.metrics[0].n_tasks == 50
    assert found.notices == (
        (
            "accuracy: ranked on the 50 tasks that all systems have; 10 of 60 are left out "
            "(b lacks 10)"
        ),
    )
    kept = [row for row in rows if row["id"] >= "t010"]
    assert found.systems == cal.rank(kept).systems


def test_a_system_without_the_metric_and_failed_calls_are_said() -> None:
    rows = [*systems({"a": 50, "b": 80}), *right("+" * 5, model="c")]
    for row in rows[200:]:
        row |= {"correct": None, "answer": None, "error": "timeout: 30 s"}
    found = cal.rank(rows)
    assert [each.name for each in found.systems] == ["b", "a"]
    assert found.notices == (
        "c: 5 failed calls are in no metric",
        "accuracy: not ranked for want of a value: c",
    )


def test_every_run_counts_however_the_records_are_ordered() -> None:
    records = noisy(SKILLS, runs=3)
    by_run = sorted(records, key=lambda record: record["run"])  # the systems take turns in a task
    means = {
        group.by["model"]: group.metrics["accuracy"].value
        for group in cal.score(records, by="model").groups
    }
    for ordered in (records, by_run):
        ranked = cal.rank(ordered).metrics[0]
        assert {each.name: each.value for each in ranked.systems} == pytest.approx(means)


def test_unequal_runs_are_said() -> None:
    rows = noisy({"a": 0.5, "b": 0.6}, tasks=20)
    found = cal.rank([*rows, *rows[:7], *rows[:7]])
    assert any("every task counts the same here" in notice for notice in found.notices)


def test_what_tells_systems_apart(tmp_path: Path) -> None:
    rows = noisy({"a": 0.5, "b": 0.6})
    tiers = [{**row, "tier": tier} for row in rows for tier in ("T1", "T2")]
    assert cal.rank(tiers).by == ("model", "tier")
    assert [each.name for each in cal.rank(tiers, by="tier").systems] == ["T1", "T2"]
    assert "keeps them apart" in cal.rank(tiers, by="tier").notices[0]
    one = write_lines(tmp_path / "one.jsonl", right("++++----"))
    two = write_lines(tmp_path / "two.jsonl", right("+++++---"))
    found = strict(run(one, two, "--format", "json").stdout)
    assert [each["by"] for each in found["systems"]] == [
        {"file": "two.jsonl"},
        {"file": "one.jsonl"},
    ]
    lists = cal.rank(right("++++----"), right("+++++---"))
    assert [each.name for each in lists.systems] == ["<records> 2", "<records> 1"]


def test_files_with_the_same_models(tmp_path: Path) -> None:
    """They are runs of the same systems, which is said, or systems of their own."""
    files = [
        write_lines(tmp_path / f"{seed}.jsonl", noisy({"a": 0.5, "b": 0.7}, seed=seed))
        for seed in (1, 2)
    ]
    pooled = cal.rank(*files)
    assert {each.name for each in pooled.systems} == {"a", "b"}
    assert pooled.notices == (
        "up to 2 files of a task count as its runs; --by model --by file keeps them apart",
    )
    apart = cal.rank(*files, by=["model", "file"])
    assert len(apart.systems) == 4
    assert not apart.notices


def test_a_nested_field_tells_systems_apart() -> None:
    rows = [{**row, "setup": {"prompt": row["model"]}} for row in systems({"a": 40, "b": 80})]
    for row in rows:
        del row["model"]
    assert [each.name for each in cal.rank(rows, by="setup.prompt").systems] == ["b", "a"]


def test_clusters_widen_intervals() -> None:
    rows = [
        {"id": f"{model}{n}"[1:], "site": n // 10, "model": model, "correct": n // 10 % 3 < most}
        for model, most in (("a", 1), ("b", 2), ("c", 3))
        for n in range(90)
    ]
    alone, clustered = cal.rank(rows), cal.rank(rows, cluster="site")
    width = [
        (each.high or 1) - (each.low or 0) for found in (alone, clustered) for each in found.systems
    ]
    assert width[4] > 1.5 * width[1]


def test_parts_of_the_tasks(tmp_path: Path) -> None:
    rows = noisy(SKILLS)
    found = cal.rank(rows, tasks=True)
    assert found.metrics[0].tasks_by == "category"
    best = found.systems[0]
    even = [r["correct"] for r in rows if r["model"] == best.name and r["category"] == "even"]
    assert best.tasks["even"].value == pytest.approx(sum(even) / len(even))
    assert best.tasks["even"].n_tasks == 30
    file = write_lines(tmp_path / "a.jsonl", rows)
    result = run(file, "--tasks", "id")
    assert "accuracy by id" in result.stdout
    assert "the 40 of 60 that tell the systems apart most" in result.stderr
    assert "accuracy by category" in run(file, "--tasks").stdout
    assert "files are named before --tasks" in refused(file, "--tasks", "kind")


def test_strengths_by_wins() -> None:
    found = cal.rank(noisy(SKILLS, runs=3), bradley_terry=True)
    strengths = [each.strength for each in found.systems]
    values = [each.value for each in strengths if each is not None and each.value is not None]
    assert values == sorted(values, reverse=True)
    assert sum(values) == pytest.approx(0, abs=1e-9)
    rates = [each.win_rate for each in strengths if each is not None]
    assert sum(rates) == pytest.approx(2)
    assert "bradley_terry" in found.to_dict()["systems"][0]


JUDGED = [
    {"id": n // 3, "model_a": a, "model_b": b, "winner": winner}
    for n, (a, b, winner) in enumerate(
        [("x", "y", "model_a"), ("x", "z", "tie"), ("y", "z", "z")] * 9
        + [("x", "y", "b"), ("z", "x", "x"), ("z", "y", "Tie"), ("y", "x", None)] * 5
    )
]


def test_pairwise_judgments(tmp_path: Path) -> None:
    found = cal.rank(JUDGED)
    assert found.metrics[0].metric == "bradley_terry"
    assert [each.name for each in found.systems] == ["x", "z", "y"]
    assert found.notices == ("5 judgments without a winner or without two systems are left out",)
    strength = found.systems[0].strength
    assert strength is not None
    assert strength.win_rate == pytest.approx((9 + 4.5 + 5) / (9 + 9 + 5 + 5))
    file = write_lines(tmp_path / "judged.jsonl", JUDGED)
    assert "highest Bradley-Terry strength: x" in run(file).stdout
    assert "leave --metric and --by out" in refused(file, "--metric", "accuracy")


def test_a_side_goes_before_a_name() -> None:
    """As a judge of pairs writes it, whatever the systems are called."""
    judged = [{"id": str(n), "a": "b", "b": "a", "winner": "ab"[n % 4 == 0]} for n in range(40)]
    assert [each.name for each in cal.rank(judged).systems] == ["b", "a"]


def test_judgments_that_cannot_be_ranked() -> None:
    with pytest.raises(cal.DataError, match="neither x nor y"):
        cal.rank([{"model_a": "x", "model_b": "y", "winner": "left"}])
    with pytest.raises(cal.DataError, match="with itself"):
        cal.rank([{"model_a": "x", "model_b": "x", "winner": "a"}])
    apart = [{"a": "x", "b": "y", "winner": "a"}, {"a": "u", "b": "v", "winner": "b"}]
    with pytest.raises(cal.UsageError, match="no chain"):
        cal.rank(apart)


def test_refusals(tmp_path: Path) -> None:
    one = write_lines(tmp_path / "one.jsonl", right("++--", model="m"))
    assert "one system has nothing to be ranked against" in refused(one)
    assert "one system has nothing to be ranked against" in refused(one, "--by", "model")
    assert "no record has a value in vendor" in refused(one, "--by", "vendor")
    other = write_lines(tmp_path / "other.jsonl", [{"id": "x", "correct": True, "model": "n"}])
    said = refused(one, other)
    assert "no task is common to all systems; of 5 tasks, n lacks 4, m lacks 1" in said
    empty = write_lines(tmp_path / "empty.jsonl", [])
    assert "no records" in refused(empty, code=3)
    bare = write_lines(tmp_path / "bare.jsonl", [{"id": n, "model": n % 2} for n in range(4)])
    assert "no metric" in refused(bare)


def test_every_format(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", noisy(SKILLS))
    rows = list(csv.DictReader(io.StringIO(run(file, "--format", "csv").stdout)))
    assert [row["by_model"] for row in rows] == [row["system"] for row in rows]
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4"]
    assert {"low", "high", "rank_low", "rank_high", "group", "n_tasks"} <= rows[0].keys()
    for form in ("markdown", "latex", "table"):
        text = run(file, "--format", form).stdout
        assert "accuracy" in text
        assert "Pairs" in text
    found = cal.rank(file, bradley_terry=True, tasks=True)
    assert found.to_polars().height == 4
    assert {"strength_value", "even_value"} <= {*found.to_pandas().columns}
    assert "<svg" in found._repr_html_()
    assert found.to_json() == cal.rank(file, bradley_terry=True, tasks=True).to_json()


def test_figures(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", noisy(SKILLS))
    metrics = ("--metric", "accuracy", "--metric", "mean(score)")
    assert run(file, *metrics, "--figures", tmp_path / "drawn").exit_code == 0
    assert {path.name for path in (tmp_path / "drawn").glob("*.svg")} == {
        "rank_accuracy.svg",
        "rank_mean_score.svg",
    }
    with pytest.raises(cal.UsageError, match="--better up"):
        cal.rank(file, better="up")  # type: ignore[arg-type]


def test_many_systems_on_one_page() -> None:
    skills = {f"m{n:02}": 0.4 + 0.03 * n for n in range(20)}
    text = str(cal.rank(noisy(skills)))
    assert len(text.splitlines()) < 60
    assert max(map(len, text.splitlines())) <= 120


def test_names_from_outside_cannot_harm() -> None:
    rows = systems({"<script>\x1b[31m|a": 40, "$b_%": 80})
    found = cal.rank(rows)
    assert "<script>" not in found._repr_html_()
    assert "\x1b" not in str(found)
    assert r"\$b\_\%" in found.to_latex()


def test_the_order_of_records_makes_no_difference() -> None:
    records = noisy({"a": 0.8, "b": 0.5}, runs=3)
    by_run = sorted(records, key=lambda each: (each["run"], each["id"]))  # as a journal has them
    assert cal.rank(by_run).to_dict() == cal.rank(records).to_dict()
    in_report = cal.report(by_run).to_markdown()
    assert cal.rank(by_run).to_markdown().splitlines()[0] in in_report
    found = {each.by["model"]: each.value for each in cal.rank(by_run).systems}
    for name, value in found.items():
        of_system = [each for each in records if each["model"] == name]
        assert value == pytest.approx(cal.score(of_system)["accuracy"].value)


def test_independent_samples_as_compare_takes_them() -> None:
    records = [
        {"model": name, "correct": n % 10 < most}
        for name, most, count in (("a", 9, 80), ("b", 5, 60))
        for n in range(count)
    ]
    found = cal.rank(records, unpaired=True)
    assert [(each.name, each.n_tasks) for each in found.systems] == [("a", 80), ("b", 60)]
    assert found.to_dict()["paired"] is False
    sides = ([each for each in records if each["model"] == name] for name in "ba")
    compared = cal.compare(*sides, unpaired=True).pairs[0].metrics["accuracy"]
    [pair] = found.pairs
    assert (pair.difference, pair.p_value, pair.test) == (
        *(compared.difference, compared.p_value),
        "Fisher's exact",
    )
    assert any("no record has an id" in notice for notice in found.notices)


def test_independent_systems_need_no_common_task(tmp_path: Path) -> None:
    skills = {"a": 0.9, "b": 0.9, "c": 0.2}
    records = [
        {**each, "id": f"{each['model']}-{each['id']}"} for each in noisy(skills, tasks=80, runs=2)
    ]
    file = write_lines(tmp_path / "runs.jsonl", records)
    assert "--unpaired" in refused(file)
    assert "as independent samples of 80 tasks each" in run(file, "--unpaired").stdout
    groups = {each.name: each.group for each in cal.rank(records, unpaired=True).systems}
    assert groups["a"] == groups["b"] != groups["c"]
    assert "--tasks" in refused(file, "--unpaired", "--tasks")
    assert "is a mean" in refused(file, "--unpaired", "--metric", "latency_p95_ms")
    clustered = cal.rank(records, unpaired=True, cluster="category")
    assert {pair.test for pair in clustered.pairs} == {"clustered Welch t"}
