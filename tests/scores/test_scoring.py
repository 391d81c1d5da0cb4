"""A score: the contract's JSON, who is counted where, and the same bytes every time."""

from __future__ import annotations

import hashlib
import json
import math
import random
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest

import calipers as cal
from calipers.metrics import catalogue, metric_named, metrics_of
from calipers.records.bytestream import Block, read_blocks
from calipers.records.jsonl import JsonLines
from calipers.records.sources import Source
from calipers.records.tables import Rows
from calipers.scores.options import Options
from calipers.scores.score import run_engine
from calipers.support.errors import UsageError
from tests.engines_at_hand import needs_spark
from tests.examples import first_of
from tests.files import write_lines

REASONING = [metric.name for metric in metrics_of("reasoning")]
FROM_THEIR_FIELDS = {
    *(*REASONING, "token_efficiency", "time_score"),
    *("pass_at_2", "pass_hat_2"),
}  # of the records below

# Two models; runs, nulls of every sort, a failed call, an unanswered task, a task without target.
RECORDS: list[dict[str, Any]] = [
    {
        "id": "q1",
        "model": "m0",
        "run": 1,
        "target": "4",
        "answer": "4.0",
        "cot": "1. 2 + 2 = 4\n2. So four.",
        "prob_correct": 0.9,
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "latency_ms": 120,
    },
    {
        "id": "q1",
        "model": "m0",
        "run": 2,
        "target": "4",
        "answer": "5",
        "cot": "2 + 2 = 5, actually",
        "prob_correct": 0.4,
        "prompt_tokens": 10,
        "latency_ms": 80.5,
    },
    {"id": "q2", "model": "m0", "run": 1, "target": "7", "answer": None, "latency_ms": 300},
    {"id": "q2", "model": "m0", "run": 2, "target": "7", "error": "timeout: 60 s"},
    {"id": "q3", "model": "m1", "run": 1, "answer": "x", "prob_correct": 0.2, "cot": ""},
    {"id": "q4", "model": "m1", "run": 1, "correct": True, "prob_correct": 1.0},
    {"id": "q4", "model": "m1", "run": 2, "correct": False, "answer": "y", "target": "y"},
]


def only(score: cal.Score) -> cal.Group:
    [group] = score.groups
    return group


def keys(score: cal.Score, name: str) -> list[Any]:
    return [group.by[name] for group in score.groups]


# --- the contract ---


def test_the_json_is_the_contracts(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", RECORDS)
    score = cal.score(path, by="model", seed=7).to_dict()
    assert list(score) == [
        *("schema", "version", "seed", "settings", "inputs", "groups", "metric_versions")
    ]
    versions = score["metric_versions"]
    assert list(versions) == list(score["groups"][0]["metrics"])
    assert versions == {name: metric_named(name).version for name in versions}
    assert score["schema"] == "calipers.score/1"
    assert score["version"] == cal.__version__
    assert score["seed"] == 7
    assert score["settings"] == {
        "normalize": "numeric",
        "answer": "recorded",
        "answer_after": None,
        "answer_regex": None,
        "bins": 10,
        "tokenizer": "whitespace",
        "step_pattern": None,
        "correction_phrases": [],
        "pass_weight": 0.5,
        "impl_weight": 0.5,
        "prices": None,
        "judge_cost": "apart",
        "pass_score": 1.0,
        "positive": None,
        "latency_budget_ms": 5000.0,
        "case_weights": None,
        "optimal_tools": None,
        "start": None,
        "goal": None,
        "weights": None,
        "semantic_model": "distilbert-base-uncased",
        "semantic_cache": None,
        "missing": "zero",
        "errors": "exclude",
        "success_threshold": 0.8,
        "checks": None,
        "threshold_from": None,
        "confidence": 0.95,
        "cluster": None,
        "resamples": 0,
        "weight": "row",
    }
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert score["inputs"] == [{"path": str(path), "rows": 7, "sha256": digest}]
    assert [list(group) for group in score["groups"]] == [
        ["by", "records", "errors", "truncated", "warning", "metrics"],
        ["by", "records", "errors", "truncated", "metrics"],
    ]
    m0, m1 = score["groups"]
    assert (m0["by"], m0["records"], m0["errors"]) == ({"model": "m0"}, 4, 1)
    assert (m1["by"], m1["records"], m1["errors"]) == ({"model": "m1"}, 3, 0)
    assert set(m0["metrics"]) == set(m1["metrics"]) == FROM_THEIR_FIELDS
    fields = ["value", "low", "high", "stderr", "interval", "n", "missing", "reason"]
    for name, metric in {**m0["metrics"], **m1["metrics"]}.items():
        beside = {
            "accuracy": ["unanswered"],
            "token_efficiency": ["quality"],
            "math_usr": ["equations", "wrong", "rounded", "equals_signs", "coverage"],
        }
        bounds = {"interval_reason", "scope"}
        shown = [field for field in metric if field not in bounds]
        assert shown == [*fields, *beside.get(name, [])]
    assert m0["metrics"]["accuracy"] == {
        "value": 1 / 3,
        "low": pytest.approx(0.0015, abs=1e-4),
        "high": pytest.approx(0.9940, abs=1e-4),
        # Two tasks, one with two runs, shares ⅔ and ⅓: √(2 · (1/3)² / (1 − 6/5 + 5/9)) / 3.
        "stderr": pytest.approx((2 / 9 / (16 / 45)) ** 0.5 / 3),
        "interval": "wilson",
        "n": 3,
        "missing": 0,
        "reason": None,
        "unanswered": 1,
    }


def test_the_json_is_strict_and_can_be_read_again() -> None:
    score = cal.score(RECORDS, by=["model", "run"])
    text = score.to_json()

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(text, parse_constant=refuse) == score.to_dict()
    assert json.loads(score.to_json(indent=None)) == score.to_dict()


def test_an_infinite_mean_is_a_string() -> None:
    score = cal.score([{"latency_ms": 1.7e308}, {"latency_ms": 1.7e308}])
    assert only(score).metrics["latency_mean_ms"].to_dict()["value"] == "Infinity"


def test_without_by_there_is_one_group_with_an_empty_by() -> None:
    assert only(cal.score(RECORDS)).to_dict()["by"] == {}


def test_without_records_there_is_nothing() -> None:
    score = cal.score([], by="model")
    assert (score.groups, score.records, score.exit_code) == ((), 0, 3)
    assert str(score) == "No records.\n"
    assert score.to_polars().is_empty()


# --- who is counted where ---


OF_TASKS = {name for name in catalogue() if name.startswith(("pass_at_", "pass_hat_"))}
OF_ALL_ROWS = sorted({*catalogue()} - {"safety_rate"} - OF_TASKS)


@pytest.mark.parametrize("by", [(), ("model",), ("model", "run"), ("answer",)])
def test_every_row_is_used_missing_or_failed(by: tuple[str, ...]) -> None:
    check_that_rows_add_up(OF_ALL_ROWS, by)


@pytest.mark.parametrize("name", OF_ALL_ROWS)
def test_every_row_counts_for_a_metric_alone(name: str) -> None:
    check_that_rows_add_up([name], ("model",))


def check_that_rows_add_up(names: list[str], by: tuple[str, ...]) -> None:
    score = cal.score(RECORDS, by=by, metrics=names)
    assert sum(group.records for group in score.groups) == 7
    assert sum(group.errors for group in score.groups) == 1
    for group in score.groups:
        for name in names:
            measured = group.metrics[name]
            assert measured.n + measured.missing + group.errors == group.records, name
            known = measured.value is not None
            assert known == (measured.n > 0) == (measured.reason is None), name


def test_a_null_takes_its_row_out_of_that_metric_alone() -> None:
    metrics = only(cal.score(RECORDS)).metrics
    used = {name: metrics[name].n for name in ("accuracy", "brier", "sce", "total_tokens_mean")}
    assert used == {"accuracy": 5, "brier": 3, "sce": 4, "total_tokens_mean": 1}


def test_a_task_without_an_answer_is_wrong_and_counted() -> None:
    rows = [
        {"target": "4", "answer": "4"},
        {"target": "4"},
        {"target": "4", "answer": None},
        {"target": None, "answer": "4"},
        {"target": "4", "correct": True},  # recorded: its answer is not asked for
        {"target": "4", "error": "boom"},
    ]
    measured = only(cal.score(rows)).metrics["accuracy"]
    assert (measured.value, measured.n, measured.missing) == (0.5, 4, 1)
    assert measured.extras == {"unanswered": 2}


def test_a_failed_call_counts_in_no_metric() -> None:
    good = {"id": "1", "target": "4", "answer": "4", "cot": "1 + 1 = 2", "latency_ms": 5.0}
    failed = {**good, "id": "2", "answer": "9", "cot": "1 + 1 = 3", "latency_ms": 5e9, "error": "x"}
    with_it, without = only(cal.score([good, failed])), only(cal.score([good]))
    assert (with_it.records, with_it.errors) == (2, 1)
    for name, measured in without.metrics.items():
        assert with_it.metrics[name] == measured


@pytest.mark.parametrize(
    "error", ["timeout: 60 s", "False", True, 0, 1.5, {"code": 429}, ["x"], " "]
)
def test_an_error_that_is_set_is_a_failed_call(error: Any) -> None:
    assert only(cal.score([{"answer": "a", "error": error}])).errors == 1


@pytest.mark.parametrize("error", [None, "", False, float("nan")])
def test_an_error_that_is_not_set_is_none(error: Any) -> None:
    assert only(cal.score([{"answer": "a", "error": error}])).errors == 0


def test_where_every_call_failed_the_reason_says_so() -> None:
    group = only(cal.score([{"answer": "a", "target": "a", "error": "boom"}] * 2))
    assert (group.records, group.errors) == (2, 2)
    measured = group.metrics["accuracy"]
    assert (measured.value, measured.n, measured.missing) == (None, 0, 0)
    assert measured.reason == "every call failed"


# --- which metrics ---


def test_metrics_are_computed_whose_fields_are_present() -> None:
    rows = [{"answer": "a"}, {"latency_ms": None, "prob_correct": float("nan")}]
    assert set(only(cal.score(rows)).metrics) == {"sce", "sce_normalized"}
    rows.append({"latency_ms": 3})
    needing = {name for name, each in catalogue().items() if each.needs == ("latency_ms",)}
    found = {"sce", "sce_normalized", "time_score", *needing}
    assert set(only(cal.score(rows)).metrics) == found


def test_a_field_is_present_when_any_row_of_any_group_has_it() -> None:
    rows = [{"m": "a", "answer": "x"}, {"m": "b", "answer": "x", "cot": "y"}]
    first, second = cal.score(rows, by="m").groups
    assert set(first.metrics) == set(second.metrics)
    assert first.metrics["cot_tokens_mean"].reason == "no record has cot"


def test_a_profile_shows_nulls_with_reasons() -> None:
    metrics = only(cal.score([{"answer": "a"}], profile="reasoning")).metrics
    assert set(metrics) == set(REASONING)
    assert metrics["sce"].value == 0.0
    reasons = {name: metrics[name].reason for name in ("brier", "latency_p95_ms", "stability")}
    assert reasons == {
        "brier": "no record has prob_correct and correct, or answer and target",
        "latency_p95_ms": "no record has latency_ms",
        "stability": "no task has two runs whose answers can be checked",
    }


def test_metrics_that_are_named_are_given_in_that_order() -> None:
    chosen = ["stability", "accuracy", "stability"]
    assert list(only(cal.score(RECORDS, metrics=chosen)).metrics) == ["stability", "accuracy"]


@pytest.mark.parametrize(
    ("options", "problem", "fix"),
    [
        ({"metrics": ["acuracy"]}, "no metric is called acuracy", "did you mean accuracy?"),
        ({"profile": "reasonin"}, "--profile reasonin: no such choice", "did you mean reasoning?"),
        ({"by": "modle"}, "--by modle: no record has a value in modle", "did you mean model?"),
        (
            {"map": {"answer": "outptu"}},
            "--map answer=outptu: no record has a value in outptu",
            "known: ",
        ),
        (
            {"map": {"anser": "x"}},
            "--map anser=…: the record has no field anser",
            "did you mean answer?",
        ),
        ({"engine": "dask"}, "--engine dask: no such choice", "polars or spark"),
        ({"bins": 0}, "--bins 0: must be at least 1", "10 is"),
        ({"normalize": "x"}, "--normalize x: no such choice", "numeric or text"),
        ({"judge_cost": "x"}, "--judge-cost x: no such choice", "apart or included"),
        ({"missing": "x"}, "--missing x: no such choice", "zero or renormalize"),
        ({"on_bad": "x"}, "--on-bad x: no such choice", "stop or skip"),
        ({"bad_rows": "x.jsonl"}, "--bad-rows needs --on-bad skip", "add --on-bad skip"),
        ({"per_sample": "x.txt"}, "--per-sample x.txt: unknown format", "name a file that ends in"),
    ],
)
def test_what_makes_no_sense_is_said(options: dict[str, Any], problem: str, fix: str) -> None:
    with pytest.raises(cal.UsageError) as refused:
        cal.score(RECORDS, **options)
    assert refused.value.message == problem
    assert refused.value.fix.startswith(fix)


def test_fields_are_renamed() -> None:
    rows = [{"output": "4", "expected": "4", "answer": "5", "system": "s"}]
    score = cal.score(
        rows, map={"answer": "output", "target": "expected", "model": "system"}, by="model"
    )
    assert only(score).by == {"model": "s"}
    assert only(score).metrics["accuracy"].value == 1.0


# --- groups ---


@pytest.mark.parametrize(
    ("values", "ordered"),
    [
        ([10, None, 9, 2], [2, 9, 10, None]),
        ([0.5, 10, -1.0, None], [-1.0, 0.5, 10.0, None]),
        (["b", None, "a", "B", "é", "10", "9"], ["9", "10", "B", "a", "b", "é", None]),
        ([True, None, False], [False, True, None]),
        (["x", 10, 9], ["9", "10", "x"]),  # of two kinds: texts
        (['a"b\\c\n\u2028', "a,b", ""], ["", 'a"b\\c\n\u2028', "a,b"]),
    ],
)
def test_groups_are_sorted_numbers_by_size_and_null_last(
    values: list[Any], ordered: list[Any], tmp_path: Path
) -> None:
    rows = [{"mine": value, "correct": True} for value in values]
    for data in (rows, write_lines(tmp_path / "a.jsonl", rows)):
        found = keys(cal.score(data, by="mine"), "mine")
        assert found == ordered
        assert [type(value) for value in found] == [type(value) for value in ordered]


def test_several_fields_sort_one_after_the_other() -> None:
    values = [(m, run) for m in ("b", None, "a") for run in (10, None, 9)]
    rows = [{"m": m, "run": run, "correct": True} for m, run in values]
    score = cal.score(rows, by=["m", "run", "m"])
    assert [tuple(group.by.values()) for group in score.groups] == [
        (m, run) for m in ("a", "b", None) for run in (9, 10, None)
    ]


def test_a_field_of_our_own_name_can_be_grouped_by() -> None:
    rows = [{"_group": "a", "value": 1, "n": "x", "correct": True, "cot": "c", "records": "r"}]
    names = ["_group", "value", "n", "correct", "cot", "records"]
    score = cal.score(rows, by=names)
    expected = {"_group": "a", "value": 1, "n": "x", "correct": True, "cot": "c", "records": "r"}
    assert only(score).by == expected
    table = score.to_polars().row(0, named=True)
    assert (table["by_value"], table["by_n"], table["n"]) == (1, "x", 1)


# --- identity ---


def test_without_ids_rows_are_numbered_with_a_notice(tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    data = [write_lines(tmp_path / name, [{"answer": "a"}] * 2) for name in ("a.jsonl", "b.jsonl")]
    score = cal.score(data, per_sample=out)
    assert score.notices == ("no record has an id: rows are numbered, each a task of its own",)
    assert pl.read_parquet(out)["id"].to_list() == ["1", "2", "3", "4"]


def test_ids_in_some_records_only_are_a_data_error() -> None:
    with pytest.raises(cal.DataError) as refused:
        cal.score([{"id": "1", "answer": "a"}, {"answer": "a"}, {"id": None}])
    assert refused.value.message == "<records>: 2 of 3 records have no id, the others have one"
    assert "--map id=" in refused.value.fix


def test_the_same_id_model_tier_and_run_twice_is_a_warning() -> None:
    same = {"id": "1", "model": "m", "tier": "T0", "run": 1, "answer": "a"}
    others = [{**same, field: "other"} for field in ("id", "model", "tier", "run")]
    assert cal.score([same, *others]).notices == ()
    score = cal.score([same, same, *others, same, {**same, "error": "x"}])
    assert score.notices == (
        "3 records repeat the id, model, tier and run of another; they count as further runs",
    )
    assert only(score).records == 8


def test_rows_that_share_an_id_in_a_group_are_runs_of_one_task() -> None:
    rows = [{"id": "q", "model": m, "run": r, "answer": "a"} for m in "xy" for r in (1, 2)]
    assert only(cal.score(rows)).metrics["answer_entropy"].n == 4
    alone = cal.score([{**row, "id": str(number)} for number, row in enumerate(rows)])
    assert only(alone).metrics["answer_entropy"].reason == "no task has two runs with an answer"


# --- inputs ---


def test_what_is_no_local_file_has_no_hash(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    pl.DataFrame({"answer": ["a"]}).write_parquet(folder / "p.parquet")
    for data, name in [
        (folder, str(folder)),
        ([{"answer": "a"}], "<records>"),
        (pl.DataFrame({"answer": ["a"]}), "<table>"),
    ]:
        assert cal.score(data, hash_inputs=True).to_dict()["inputs"] == [
            {"path": name, "rows": 1, "sha256": None}
        ]


@pytest.mark.long
def test_a_file_beyond_64_mib_is_hashed_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    line = json.dumps({"answer": "a", "input": "x" * (1 << 20)}) + "\n"
    path.write_text(line * 64)
    assert path.stat().st_size > 64 << 20
    assert cal.score(path).inputs[0].sha256 is None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert cal.score(path, hash_inputs=True).inputs[0].sha256 == digest
    path.write_text(line * 63)
    assert cal.score(path).inputs[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_several_files_and_patterns_are_one_data_set(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", RECORDS[:3])
    write_lines(tmp_path / "b.jsonl", RECORDS[3:5])
    pl.DataFrame(RECORDS[5:], infer_schema_length=None).write_parquet(tmp_path / "c.parquet")
    together = cal.score([tmp_path / "*.jsonl", str(tmp_path / "c.parquet")], by="model")
    assert [each.path for each in together.inputs] == [
        str(tmp_path / name) for name in ("a.jsonl", "b.jsonl", "c.parquet")
    ]
    assert [each.rows for each in together.inputs] == [3, 2, 2]
    assert together.groups == cal.score(RECORDS, by="model").groups


def test_the_same_file_twice_is_read_twice(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", RECORDS)
    score = cal.score([path, path])
    assert score.records == 14
    assert [each.rows for each in score.inputs] == [7, 7]


# --- the same bytes every time ---


def many_records(count: int) -> list[dict[str, Any]]:
    chance = random.Random(11)
    answers = ["1", "1.0", "2", "x y", None]
    return [
        {
            "id": f"q{chance.randrange(count // 3)}",
            "model": chance.choice(["a", "b", None]),
            "run": number,
            "answer": chance.choice([*answers, str(chance.random())]),
            "target": "1",
            "cot": "w " * chance.randrange(9),
            "prob_correct": chance.random(),
            "latency_ms": chance.expovariate(0.01),
        }
        for number in range(count)
    ]


class InBlocks(JsonLines):
    """A file in blocks of a size of our choice."""

    def __init__(self, path: Path, size: int) -> None:
        super().__init__(path)
        self._size = size

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        assert self.path is not None
        return read_blocks(Path(self.path), size=self._size)


def totals(*sources: Source) -> dict[str, dict[str, float]]:
    options = Options(by=("model",))
    return run_engine(sources, options.plan(), options, lambda _: None).groups


@pytest.mark.parametrize(
    ("count", "times"),
    [
        (300, 4),
        pytest.param(4_000, 6, marks=pytest.mark.long),
        pytest.param(40_000, 2, marks=pytest.mark.long),
    ],
)
def test_the_same_input_gives_the_same_bytes(count: int, times: int, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", many_records(count))
    assert len({cal.score(path, by="model").to_json() for _ in range(times)}) == 1


@pytest.mark.parametrize("size", first_of([10**5, 10_000, 10**6]))
def test_the_size_of_a_block_does_not_show(size: int, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", many_records(4_000))
    assert totals(InBlocks(path, size)) == totals(JsonLines(path))


def test_the_format_and_its_slices_do_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calipers.records.tables.CHUNK_ROWS", 2_000)
    monkeypatch.setattr("calipers.records.csv_file._CHUNK_ROWS", 2_000)
    rows = many_records(5_000)  # more than a slice of a table or a list
    lines = totals(JsonLines(write_lines(tmp_path / "a.jsonl", rows)))
    assert totals(Rows(rows, "rows")) == lines
    frame = pl.DataFrame(rows, infer_schema_length=None)
    frame.write_parquet(tmp_path / "a.parquet", row_group_size=999)
    frame.write_csv(tmp_path / "a.csv")
    scores = [
        cal.score(data, by="model").to_dict()["groups"]
        for data in (tmp_path / "a.jsonl", tmp_path / "a.parquet", tmp_path / "a.csv", frame)
    ]
    assert all(score == scores[0] for score in scores)


# --- what a score can be turned into ---


def test_a_score_is_a_table_a_frame_and_a_page() -> None:
    score = cal.score(RECORDS, by="model")
    frame = score.to_polars()
    assert frame.columns == [
        "model",
        "metric",
        "value",
        "low",
        "high",
        "stderr",
        "interval",
        "n",
        "missing",
        "reason",
    ]
    assert frame.height == 2 * len(FROM_THEIR_FIELDS)
    row = frame.row(
        by_predicate=(pl.col("model") == "m1") & (pl.col("metric") == "brier"), named=True
    )
    assert (row["value"], row["n"], row["missing"]) == (0.0, 1, 2)
    page = score._repr_html_()
    assert '>m0</th><th scope="col" class="number">m1</th>' in page
    assert ">0.33 <small>[0.00, 0.99]</small><" in page
    assert "accuracy" in str(score)
    assert "0.33 [0.00, 0.99]" in str(score)


def test_a_measured_null_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="a null needs a reason"):
        cal.Measured(value=None, n=0, missing=1)
    with pytest.raises(ValueError, match="only a null has one"):
        cal.Measured(value=1.0, n=1, missing=0, reason="none")


def test_results_are_frozen() -> None:
    score = cal.score(RECORDS)
    with pytest.raises(AttributeError):
        score.seed = 1  # type: ignore[misc]
    with pytest.raises(AttributeError):
        score.groups[0].metrics["accuracy"].value = 1.0  # type: ignore[misc]


def test_records_that_no_metric_can_use_are_told_so() -> None:
    with pytest.raises(cal.DataError, match="among id, output, gold") as refused:
        cal.score([{"id": "1", "output": "4", "gold": "4"}])
    assert "--map answer=output --map target=gold" in refused.value.fix
    failed = cal.score([{"id": "1", "error": "timeout: 60 s"}])
    assert failed.notices == ()


def test_a_model_that_never_answers_is_wrong_each_time(tmp_path: Path) -> None:
    asked = [{"id": "1", "target": "4", "answer": None}, {"id": "2", "target": "5", "answer": None}]
    for data in (asked, write_lines(tmp_path / "a.jsonl", asked), pl.DataFrame(asked)):
        metrics = cal.score(data).groups[0].metrics
        assert (metrics["accuracy"].value, metrics["accuracy"].n) == (0.0, 2)
        assert metrics["accuracy"].extras["unanswered"] == 2
        assert metrics["sce"].value is None
    tasks = [{"id": "1", "target": "4", "passed": True}]  # nobody was asked for an answer
    assert "accuracy" not in cal.score(tasks).groups[0].metrics


# --- Fixed tasks ---

WAYS: tuple[Literal["sampled"], Literal["fixed"]] = ("sampled", "fixed")


def test_fixed_tasks_vary_by_their_runs_only() -> None:
    rng = random.Random(4)
    ease = [rng.random() for _ in range(40)]
    rows = [
        {"id": str(task), "run": run, "correct": rng.random() < share, "latency_ms": rng.random()}
        for task, share in enumerate(ease)
        for run in range(3 + task % 3)
    ]
    sampled, fixed = (cal.score(rows, tasks=each).groups[0].metrics for each in WAYS)
    by_task: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_task.setdefault(str(row["id"]), []).append(row)
    for name, field in (("accuracy", "correct"), ("latency_mean_ms", "latency_ms")):
        within = sum(
            len(runs) * statistics.variance(float(run[field]) for run in runs)
            for runs in by_task.values()
        )
        assert fixed[name].stderr == pytest.approx(math.sqrt(within) / len(rows))
        assert fixed[name].value == sampled[name].value
        assert fixed[name].interval == "fixed tasks"
    wide, narrow = ((each["accuracy"].low, each["accuracy"].high) for each in (sampled, fixed))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]  # type: ignore[operator]


def test_fixed_tasks_with_one_run_have_no_interval_and_a_reason() -> None:
    rows = [{"id": str(task), "correct": task % 2 == 0} for task in range(10)]
    found = cal.score(rows, tasks="fixed").groups[0].metrics["accuracy"]
    assert (found.value, found.low, found.high) == (0.5, None, None)
    assert "two runs or more of every task" in (found.interval_reason or "")


def test_fixed_tasks_all_alike_have_an_interval() -> None:
    rows = [{"id": str(task), "correct": True} for task in range(10) for _ in range(4)]
    found = cal.score(rows, tasks="fixed").groups[0].metrics["accuracy"]
    assert found.low == pytest.approx(0.904, abs=0.01)
    assert found.high == 1


def test_fixed_tasks_and_clusters_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="--tasks fixed"):
        cal.score([{"correct": True}], tasks="fixed", cluster="site")


@needs_spark
def test_fixed_tasks_with_spark() -> None:
    rng = random.Random(5)
    rows = [
        {"id": str(task), "correct": rng.random() < 0.6, "prob_correct": rng.random()}
        for task in range(20)
        for _ in range(3)
    ]
    here, there = (
        cal.score(rows, tasks="fixed", metrics=["accuracy", "brier"], engine=engine).groups[0]
        for engine in ("polars", "spark")
    )
    for name in ("accuracy", "brier"):
        assert (there.metrics[name].low, there.metrics[name].high) == pytest.approx(
            (here.metrics[name].low, here.metrics[name].high)
        )
