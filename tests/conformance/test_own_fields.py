"""Any field is a metric: every statistic of one, against plain Python, on every engine."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from scipy import stats

import calipers as cal
from tests.conformance.interval_errors import _skewed
from tests.engines_at_hand import needs_spark
from tests.examples import examples
from tests.files import write_lines

FIELD = "meta.inner.value"
NAMES = [f"{statistic}({FIELD})" for statistic in ("mean", "p50", "p95", "p99", "sum")]
_numbers = st.one_of(st.integers(-5, 5), st.floats(-1e6, 1e6, allow_subnormal=False))
_rows = st.lists(
    st.tuples(st.sampled_from("ab"), st.one_of(st.none(), _numbers)), min_size=1, max_size=12
).filter(lambda rows: any(value is not None for _, value in rows))


def records(rows: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for number, (case, value) in enumerate(rows):
        nested = None if value is None and number % 2 else {"inner": {"value": value}}
        found.append({"id": str(number), "case": case, "meta": nested})
    return found


def expected(name: str, values: list[float]) -> float | None:
    if not values:
        return None
    statistic = name.partition("(")[0]
    if statistic == "mean":
        return math.fsum(values) / len(values)
    if statistic == "sum":
        return math.fsum(values)
    return sorted(values)[-(-int(statistic[1:]) * len(values) // 100) - 1]


def check(data: Any, rows: list[tuple[str, Any]], **options: Any) -> None:
    for group in cal.score(data, by="case", metrics=NAMES, **options).groups:
        own = [value for case, value in rows if case == group.by["case"]]
        known = [float(value) for value in own if value is not None]
        for name in NAMES:
            measured = group.metrics[name]
            wanted = expected(name, known)
            assert (measured.n, measured.missing) == (len(known), len(own) - len(known))
            assert (measured.value is None) == (wanted is None) == (measured.reason is not None)
            if wanted is not None:
                assert measured.value == pytest.approx(wanted, rel=1e-9, abs=1e-6)


@given(rows=_rows)
@examples(60, suppress_health_check=list(HealthCheck))
def test_every_statistic_agrees_with_plain_python(
    rows: list[tuple[str, Any]], tmp_path: Path
) -> None:
    found = records(rows)
    check(found, rows)
    check(write_lines(tmp_path / "a.jsonl", found), rows)
    table = pl.DataFrame(found, infer_schema_length=None)
    if isinstance(table.schema["meta"], pl.Struct):
        check(table, rows)
    texts = [{**row, "meta": row["meta"] and json.dumps(row["meta"])} for row in found]
    check(pl.DataFrame(texts, schema_overrides={"meta": pl.String}), rows)


ROWS = [("ab"[n % 2], None if n % 7 == 0 else (n * 37 % 11) - 3.5) for n in range(60)]


@needs_spark
def test_spark_gives_the_same_numbers_of_fields_and_of_a_plug_in(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", records(ROWS))
    check(path, ROWS, engine="spark")
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "import polars as pl\n"
        "import calipers as cal\n\n"
        "def near(value):\n    return value is not None and abs(value) < 2\n\n"
        "def is_near(record):\n"
        "    return near(((record['meta'] or {}).get('inner') or {}).get('value'))\n\n"
        f"inner = pl.col({FIELD!r})\n"
        "cal.register(cal.metrics.mean(inner * inner, name='spark_square', better='lower'))\n"
        "cal.register(cal.metrics.mean(is_near, name='spark_near'))\n",
        encoding="utf-8",
    )
    cal.load_plugin(plugin)
    names = ["spark_square", "spark_near", f"mean({FIELD})"]
    options: dict[str, Any] = {"by": "case", "metrics": names}
    here = cal.score(path, **options).to_dict()["groups"]
    there = cal.score(path, engine="spark", **options).to_dict()["groups"]
    for ours, theirs in zip(here, there, strict=True):
        for name in names:
            for key in ("value", "low", "high", "stderr"):
                assert theirs["metrics"][name][key] == pytest.approx(ours["metrics"][name][key])
            assert theirs["metrics"][name]["interval"] == ours["metrics"][name]["interval"]
        assert ours["metrics"]["spark_near"]["interval"] == "wilson"


@given(values=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
@examples(60)
def test_a_mean_that_may_be_anything_has_students_interval(values: list[float]) -> None:
    rows = [{"id": str(n), "x": value} for n, value in enumerate([*values, 5.5, 7.5])]
    numbers = np.array([row["x"] for row in rows])
    found = cal.score(rows, metrics=["mean(x)", "sum(x)"]).groups[0].metrics
    mean, total = found["mean(x)"], found["sum(x)"]
    low, high = stats.t.interval(
        0.95, len(numbers) - 1, loc=numbers.mean(), scale=stats.sem(numbers)
    )
    effects = [float(each) for each in numbers - numbers.mean()]
    t = float(stats.t.ppf(0.975, len(numbers) - 1))
    clusters = [(each, number) for number, each in enumerate(effects)]
    assume(abs(abs(stats.skew(numbers)) - 1.5 * math.sqrt(6 / len(numbers))) > 1e-9)
    if (reach := _skewed(effects, clusters, t)) is not None:
        low = min(low, numbers.mean() - reach[0] * stats.sem(numbers))
        high = max(high, numbers.mean() + reach[1] * stats.sem(numbers))
    assert mean.interval == total.interval == "t"
    assert (mean.low, mean.high) == pytest.approx((low, high), abs=1e-9)
    assert (total.low, total.high) == pytest.approx((low * len(rows), high * len(rows)), abs=1e-6)


@pytest.mark.parametrize("ones", [0, 1, 7, 20])
@pytest.mark.parametrize("kind", [bool, int, float])
def test_values_of_0_and_1_are_a_share(ones: int, kind: type) -> None:
    """The same as `accuracy`, whose interval has a reference of its own."""
    rows = [{"id": str(n), "flag": kind(n < ones), "correct": n < ones} for n in range(20)]
    found = cal.score(rows, metrics=["accuracy", "mean(flag)"]).groups[0].metrics
    share, own = found["accuracy"], found["mean(flag)"]
    assert (own.value, own.low, own.high, own.interval) == (
        *(share.value, share.low, share.high),
        "wilson",
    )


def test_a_rank_of_a_field_has_the_interval_of_a_latency() -> None:
    rows = [{"id": str(n % 40), "x": n**2 % 83, "latency_ms": n**2 % 83} for n in range(120)]
    for percent in (50, 95, 99):
        names = [f"p{percent}(x)", f"latency_p{percent}_ms"]
        own, known = (cal.score(rows, metrics=names).groups[0].metrics[name] for name in names)
        assert (own.value, own.low, own.high) == (known.value, known.low, known.high)


def test_equal_values_without_a_range_have_no_bound() -> None:
    rows = [{"x": 3.25} for _ in range(10)]
    found = cal.score(rows, metrics=["mean(x)"]).groups[0].metrics["mean(x)"]
    assert (found.value, found.low, found.high) == (3.25, None, None)
    assert found.interval_reason is not None
    assert "equal" in found.interval_reason
