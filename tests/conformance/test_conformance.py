"""Every metric on every engine gives what plain Python gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import calipers as cal
from calipers.metrics import catalogue
from tests.conformance.reference import REFERENCES, Options
from tests.conformance.strategies import data_sets
from tests.engines_at_hand import needs_spark
from tests.examples import examples

Groups = list[list[dict[str, Any]]]

_REUSED_FOLDER = [
    HealthCheck.function_scoped_fixture,
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
]


def test_every_reasoning_metric_has_a_reference() -> None:
    declared = {name for name, metric in catalogue().items() if "reasoning" in metric.profiles}
    assert declared == set(REFERENCES)


@pytest.mark.parametrize("native", ["1", "0"])  # equations: by the library in Rust, if there is one
@given(groups=data_sets(groups=3, rows=8))
@examples(80, deadline=None, suppress_health_check=_REUSED_FOLDER)
def test_polars_agrees_with_plain_python_on_lists(native: str, groups: Groups) -> None:
    rows = [row | {"case": number} for number, group in enumerate(groups) for row in group]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALIPERS_NATIVE", native)
        score = cal.score(rows, by="case", profile="reasoning")
    compare_values(score, groups, Options())


@given(groups=data_sets(groups=3, rows=8))
@examples(80, deadline=None, suppress_health_check=_REUSED_FOLDER)
def test_polars_agrees_with_plain_python_on_files(groups: Groups, tmp_path: Path) -> None:
    """Rows of one group lie in two files, so that no number depends on how they are split."""
    files = _written(groups, tmp_path)
    compare_values(cal.score(files, by="case", profile="reasoning"), groups, Options())
    as_text = cal.score(files, by="case", profile="reasoning", normalize="text", bins=7)
    compare_values(as_text, groups, Options(normalize="text", bins=7))


@needs_spark
@pytest.mark.long
@given(groups=data_sets(groups=40, rows=6))
@settings(max_examples=4, deadline=None, suppress_health_check=_REUSED_FOLDER)
def test_spark_agrees_with_plain_python(groups: Groups, tmp_path: Path) -> None:
    files = _written(groups, tmp_path)
    compare_values(
        cal.score(files, by="case", profile="reasoning", engine="spark"), groups, Options()
    )


def _written(groups: Groups, folder: Path) -> list[Path]:
    lines = [
        json.dumps(row | {"case": number}, ensure_ascii=number % 2 == 0)
        for number, group in enumerate(groups)
        for row in group
    ]
    files = [folder / "even.jsonl", folder / "odd.jsonl"]
    for start, file in enumerate(files):
        file.write_text("".join(f"{line}\n" for line in lines[start::2]), encoding="utf-8")
    return files


def compare_values(score: cal.Score, groups: Groups, options: Options) -> None:
    """Fail unless every metric of every group is what its reference gives."""
    measured = {group.by["case"]: group for group in score.groups}
    assert sorted(measured) == list(range(len(groups)))
    for number, records in enumerate(groups):
        group = measured[number]
        for name, reference in REFERENCES.items():
            expected, found = reference(records, options), group.metrics.get(name)
            if found is None:  # not shown where no group has a value
                assert catalogue()[name].optional
                assert expected.value is None, f"{name} of {records}"
                continue
            where = f"{name} of {records}"
            assert (found.n, found.missing) == (expected.n, expected.missing), where
            assert found.n + found.missing + group.errors == group.records == len(records)
            if expected.value is None:
                assert found.value is None, where
                assert found.reason, where
            else:
                assert found.value == pytest.approx(expected.value, rel=1e-9, abs=1e-12), where
            if expected.unanswered is not None:
                assert found.extras["unanswered"] == expected.unanswered, where
