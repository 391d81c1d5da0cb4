"""The text metrics of the agents' profile on every engine give what plain Python gives."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calipers as cal
from calipers.metrics import metrics_of
from tests.conformance import agents_reference as reference
from tests.conformance.agents_reference import Options
from tests.engines_at_hand import needs_spark
from tests.examples import examples, first_of

Groups = list[list[dict[str, Any]]]

METRICS = (
    "cosine_similarity jaccard_similarity semantic_similarity output_similarity task_success "
    "time_score"
).split()
SETTINGS = [
    Options(),
    Options(renormalize=True, threshold=0.31337),
    Options(stand_in=True),
    Options(stand_in=True, renormalize=True, threshold=0.4871),
]
_REUSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

_words = st.sampled_from(
    "the The of red Red wine wines White white x _ a_b naïve Straße ΟΔΟΣ 数学 42 🙂 e\u0301 ² [".split()
)
_texts = st.lists(_words, max_size=7).map(" ".join)
_references = st.one_of(
    _texts,
    st.lists(_texts, min_size=1, max_size=4),
    st.sampled_from([18, 1.5, True, None, "[1] Smith", "[1, 2]", '["a" b]', "[]"]),
)
_seconds = st.one_of(st.none(), st.sampled_from([0, 0.5, 1, 2.718281828459045]), st.floats(0, 1e6))
_rows = st.fixed_dictionaries(
    {"id": st.sampled_from("abcd")},
    optional={
        "answer": st.one_of(st.none(), _texts, _texts, st.sampled_from([18, True])),
        "reference": _references,
        "duration_seconds": _seconds,
        "latency_ms": _seconds,
        "error": st.sampled_from([None, None, None, "timeout: none"]),
    },
)


def test_every_text_metric_is_checked() -> None:
    assert set(METRICS) <= {metric.name for metric in metrics_of("agents")}


@pytest.mark.parametrize("options", first_of(SETTINGS), ids=str)
@given(groups=st.lists(st.lists(_rows, min_size=1, max_size=8), min_size=1, max_size=3))
@examples(50, deadline=None, suppress_health_check=_REUSED)
def test_polars_agrees_with_plain_python(groups: Groups, options: Options, tmp_path: Path) -> None:
    samples = tmp_path / "samples.parquet"
    score = cal.score(_numbered(groups), per_sample=samples, **_settings(options))
    _compare(score, groups, options)
    _compare_rows(pl.read_parquet(samples), groups, options)


@given(groups=st.lists(st.lists(_rows, min_size=1, max_size=8), min_size=1, max_size=3))
@examples(50, deadline=None, suppress_health_check=_REUSED)
def test_a_file_gives_the_same(groups: Groups, tmp_path: Path) -> None:
    samples = tmp_path / "samples.parquet"
    options = SETTINGS[-1]
    path = _written(groups, tmp_path)
    _compare(cal.score(path, per_sample=samples, **_settings(options)), groups, options)
    _compare_rows(pl.read_parquet(samples), groups, options)


@needs_spark
@pytest.mark.long
@given(groups=st.lists(st.lists(_rows, min_size=1, max_size=8), min_size=30, max_size=40))
@settings(max_examples=2, deadline=None, suppress_health_check=_REUSED)
def test_spark_agrees_with_plain_python(groups: Groups, tmp_path: Path) -> None:
    path = _written(groups, tmp_path)
    for options in (SETTINGS[0], SETTINGS[-1]):
        _compare(cal.score(path, engine="spark", **_settings(options)), groups, options)


def _numbered(groups: Groups) -> list[dict[str, Any]]:
    return [row | {"case": number} for number, group in enumerate(groups) for row in group]


def _written(groups: Groups, folder: Path) -> Path:
    path = folder / "runs.jsonl"
    lines = (json.dumps(row, ensure_ascii=False) for row in _numbered(groups))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _settings(options: Options) -> dict[str, Any]:
    return {
        "by": "case",
        "profile": "agents",
        "semantic_model": "lexical" if options.stand_in else "distilbert-base-uncased",
        "missing": "renormalize" if options.renormalize else "zero",
        "success_threshold": options.threshold,
    }


def _compare(score: cal.Score, groups: Groups, options: Options) -> None:
    measured = {group.by["case"]: group for group in score.groups}
    for number, records in enumerate(groups):
        group = measured[number]
        rows = [reference.per_row(record, options) for record in records]
        for name in METRICS:
            found = group.metrics[name]
            values = [value for row in rows if (value := row[name]) is not None]
            assert found.n == len(values), (name, records)
            assert found.n + found.missing + group.errors == group.records
            if not values:
                assert found.value is None
                assert found.reason
            else:
                expected = math.fsum(values) / len(values)
                assert found.value == pytest.approx(expected, rel=1e-9, abs=1e-12), (name, records)


def _compare_rows(samples: pl.DataFrame, groups: Groups, options: Options) -> None:
    rows = [reference.per_row(record, options) for group in groups for record in group]
    for name in (*METRICS, "best_reference"):
        if name not in samples.columns:  # no row has its fields
            assert all(row[name] is None for row in rows)
            continue
        for found, row in zip(samples[name].to_list(), rows, strict=True):
            assert (found is None) == (row[name] is None), (name, row)
            if found is not None:
                assert found == pytest.approx(row[name], rel=1e-9, abs=1e-12), (name, row)
