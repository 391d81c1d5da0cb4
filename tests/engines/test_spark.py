"""What is particular to Spark: formats, bad rows, samples, many rows; figures are conformance's."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.engines import quantiles
from calipers.engines.read_rows import read_rows
from calipers.records.sinks import open_sinks
from calipers.records.sources import open_sources
from calipers.scores.options import Options
from calipers.scores.score import make_plan
from tests.alike import assert_alike
from tests.engines_at_hand import needs_spark
from tests.examples import first_of
from tests.files import write_lines

pytest.importorskip("pyspark")
from calipers.engines.spark.cluster_rows import count_partitions, count_parts, find_keys, hash_int
from calipers.engines.spark.session import start_session

pytestmark = needs_spark

# One of each way to add up; that all metrics agree is shown by tests/conformance.
METRICS = ["accuracy", "brier", "latency_p95_ms", "step_count_mean", "stability"]


def _rows(count: int) -> list[dict[str, Any]]:
    chance = random.Random(5)
    return [
        {
            "id": f"t{number % 40}",
            "model": chance.choice(["a", "b", None]),
            "run": number // 40,
            "answer": chance.choice(["7", "7.0", "8", None]),
            "target": "7",
            "cot": chance.choice(["1. 3 + 4 = 7", "- 3 + 4 = 8\n\nsorry", None]),
            "prob_correct": round(chance.random(), 3),
            "latency_ms": round(chance.expovariate(0.01), 2),
        }
        for number in range(count)
    ]


def _values(score: cal.Score) -> list[tuple[Any, dict[str, Any]]]:
    return [
        (dict(group.by), {name: each.value for name, each in group.metrics.items()})
        for group in score.groups
    ]


def _same(ours: cal.Score, theirs: cal.Score) -> None:
    assert [by for by, _ in _values(ours)] == [by for by, _ in _values(theirs)]
    for (_, left), (_, right) in zip(_values(ours), _values(theirs), strict=True):
        assert left == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("suffix", first_of([".jsonl", ".csv", ".parquet"]))
def test_every_format_gives_what_polars_gives(suffix: str, tmp_path: Path) -> None:
    frame = pl.DataFrame(_rows(300), infer_schema_length=None)
    path = tmp_path / f"rows{suffix}"
    if suffix == ".jsonl":
        frame.write_ndjson(path)
    elif suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    here = cal.score(path, by=["model"], metrics=METRICS)
    there = cal.score(path, by=["model"], metrics=METRICS, engine="spark")
    _same(here, there)
    assert here.inputs == there.inputs
    assert here.notices == there.notices


def test_tables_and_lists_in_memory() -> None:
    rows = _rows(120)
    here = cal.score(rows, by="model", metrics=METRICS)
    _same(here, cal.score(rows, by="model", metrics=METRICS, engine="spark"))
    frame = pl.DataFrame(rows, infer_schema_length=None)
    _same(here, cal.score(frame, by="model", metrics=METRICS, engine="spark"))


def test_ranks_are_found_by_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantiles, "_FEW", 0)
    rows = _rows(400)
    expected = sorted(row["latency_ms"] for row in rows)[379]
    for engine in ("polars", "spark"):
        (group,) = cal.score(rows, metrics=["latency_p95_ms"], engine=engine).groups
        assert group.metrics["latency_p95_ms"].value == expected


def test_a_bad_row_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps(row) for row in _rows(50)]
    lines[30] = '{"id": "x", "prob_correct": 2}'
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(cal.DataError, match=r"rows\.jsonl:31: prob_correct: 2 is outside"):
        cal.score(path, metrics=METRICS, engine="spark")
    bad_rows = tmp_path / "bad.jsonl"
    left = cal.score(path, metrics=METRICS, engine="spark", on_bad="skip", bad_rows=bad_rows)
    assert left.records == 49
    assert left.inputs[0].skipped == 1
    (bad,) = bad_rows.read_text(encoding="utf-8").splitlines()
    assert json.loads(bad)["row"] == 31


def test_samples_are_those_of_polars(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in _rows(80)), encoding="utf-8")
    frames = []
    for engine in ("polars", "spark"):
        samples = tmp_path / f"{engine}.parquet"
        cal.score(path, by="model", metrics=METRICS, engine=engine, per_sample=samples)
        frames.append(pl.read_parquet(samples))
    assert frames[0].equals(frames[1].select(frames[0].columns))


def test_tasks_are_those_of_polars(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", _rows(100))
    tables = []
    for engine in ("polars", "spark"):
        place = tmp_path / f"{engine}.parquet"
        cal.score(path, by="model", metrics=["accuracy"], engine=engine, per_task=place)
        tables.append(pl.read_parquet(place).sort("model", "id"))
    assert_alike(tables[1].to_dicts(), tables[0].to_dicts())


def test_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"answer": "7"}')))
    with pytest.raises(cal.UsageError, match="standard input"):
        cal.score("-", engine="spark")


@pytest.mark.long
def test_resampled_intervals_are_those_of_polars(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"t{n % 40}",
            "model": f"m{n % 2}",
            "correct": n % 7 > 2,
            "prob_correct": (n % 10) / 10,
            "latency_ms": 100.0 + n * n % 37,
        }
        for n in range(200)
    ]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    found, expected = (
        cal.score(path, by="model", resamples=300, seed=4, engine=engine)
        for engine in ("spark", "polars")
    )
    assert found.notices == expected.notices
    for ours, theirs in zip(found.groups, expected.groups, strict=True):
        for name, measured in ours.metrics.items():
            assert measured.interval == theirs.metrics[name].interval, name
            bounds = theirs.metrics[name].low, theirs.metrics[name].high
            assert (measured.low, measured.high) == pytest.approx(bounds, rel=1e-9), name
    assert found.groups[0].metrics["accuracy"].interval == "BCa bootstrap"


@pytest.mark.long
def test_tiers_have_the_evidence_of_polars(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"t{n % 20}",
            "tier": f"T{n % 3}",
            "passed": n % 5 > 1,
            "impl_rate": (n * 7 % 11) / 11,
            "cost_usd": 1.0 + n % 4,
            **({"error": "timeout"} if n % 29 == 0 else {}),
        }
        for n in range(240)
    ]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    for errors in ("exclude", "fail"):
        found, expected = (
            cal.score(path, by="tier", profile="tiers", engine=engine, errors=errors).to_dict()
            for engine in ("spark", "polars")
        )
        for part in ("tiers", "groups"):
            assert_alike(found[part], expected[part])


def test_a_spark_job_is_a_pass_over_the_rows_and_each_row_is_moved_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantiles, "_FEW", 0)  # as with millions of rows
    frame = pl.DataFrame(_rows(20_000), infer_schema_length=None)
    frame.write_parquet(tmp_path / "rows.parquet")
    context = start_session().sparkContext
    context.setJobGroup("counted", "")
    before = count_moved_bytes(context)
    measured = cal.score(tmp_path / "rows.parquet", by="model", engine="spark")
    assert measured.records == frame.height
    assert len(measured.groups[0].metrics) > 15
    assert len(context.statusTracker().getJobIdsForGroup("counted")) <= 10
    assert 0 < count_moved_bytes(context) - before < 2 * measure_narrow_columns(frame)


def count_moved_bytes(context: Any) -> int:
    """Return how many bytes have been shuffled so far."""
    executors = context._jsc.sc().statusStore().executorList(False)  # noqa: FBT003 (it is Java's)
    return sum(executors.apply(n).totalShuffleWrite() for n in range(executors.size()))


def measure_narrow_columns(frame: pl.DataFrame) -> int:
    """Return the bytes of the compact table in memory."""
    options = Options(by=("model",))
    sources = open_sources(frame)
    plan = make_plan(sources, options)
    with (
        open_sinks(samples=None, bad_rows=None, skip_bad=False, progress=print) as sinks,
        read_rows(sources, plan.list_wanted({}), plan, sinks) as read,
    ):
        return int(sum(part.estimated_size() for part in read.store.parts()))


def test_spark_respects_how_many_partitions_the_user_wants() -> None:
    session = start_session()
    hashes = session.range(50).selectExpr("hash(cast(id as int))").collect()
    assert [hash_int(number) for number in range(50)] == [row[0] for row in hashes]
    for partitions in (1, 3, 200):
        keys = find_keys(partitions)
        assert [hash_int(key) % partitions for key in keys] == list(range(partitions))
    wanted = str(session.conf.get("spark.sql.shuffle.partitions"))
    try:
        session.conf.set("spark.sql.shuffle.partitions", "3")
        assert count_partitions(session, [10**9, 10**9]) == 3
        assert count_partitions(session, [10**9, None]) == 3  # Spark Connect does not tell
        assert count_parts(session, 3, 10**9) == 3
        rows = _rows(90)
        here = cal.score(rows, by="model", metrics=METRICS)
        _same(here, cal.score(rows, by="model", metrics=METRICS, engine="spark"))
    finally:
        session.conf.set("spark.sql.shuffle.partitions", wanted)


def test_nothing_to_measure_on_spark(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("")
    assert cal.score(tmp_path / "rows.jsonl", engine="spark").records == 0
