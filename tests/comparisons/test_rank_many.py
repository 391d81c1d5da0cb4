"""A ranking of many systems: its pairs as columns, as JSON, and what it takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calipers as cal
from calipers.comparisons.ranked_pairs import RankedPair
from tests.processes import measure_process


def answers(systems: int, tasks: int, seed: int = 0) -> pl.DataFrame:
    """Right and wrong by the skill of a system and how hard a task is."""
    rng = np.random.default_rng(seed)
    skill, hard = rng.normal(0.5, 1, systems), rng.normal(0, 1.2, tasks)
    names = [f"org-{place % 37}/model-{place}:free" for place in range(systems)]
    right = rng.random((systems, tasks)) < 1 / (1 + np.exp(hard - skill[:, np.newaxis]))
    return pl.DataFrame(
        {
            "model": np.repeat(names, tasks),
            "id": np.tile([f"django__django-{place}" for place in range(tasks)], systems),
            "correct": right.ravel(),
            "cost_usd": np.exp(rng.normal(-4, 1, right.size)),
        }
    )


def test_pairs_are_columns_and_objects() -> None:
    pairs = cal.rank(answers(9, 40)).pairs
    every = list(pairs)
    assert (len(pairs), len(every)) == (36, 36)
    assert all(isinstance(each, RankedPair) for each in every)
    assert (pairs[0], pairs[-1], pairs[3:5]) == (every[0], every[-1], tuple(every[3:5]))
    assert pairs == every
    assert pairs != every[1:]
    with pytest.raises(IndexError):
        pairs[36]
    assert repr(pairs) == "RankedPairs(36 pairs of 9 systems)"


@pytest.mark.parametrize("indent", [None, 0, 1, 3])
def test_json_is_that_of_the_encoder(indent: int | None) -> None:
    """To the byte, with nulls, several metrics, and names that need escapes."""
    records = answers(5, 8).with_columns(
        pl.col("model").replace(
            {"org-0/model-0:free": 'say "é"\n\\', "org-1/model-1:free": "pairs"}
        )
    )
    same = records.filter(pl.col("model") == "pairs").with_columns(model=pl.lit("pairs again"))
    found = cal.rank(
        pl.concat([records, same]).to_dicts(),
        metrics=["accuracy", "mean(cost_usd)"],
        better="lower",
    )
    assert any(pair.reason for pair in found["mean(cost_usd)"].pairs)
    written = json.dumps(found.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)
    assert found.to_json(indent=indent) == written


def test_where_letters_cannot_be_read_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calipers.statistics.ranking.MOST_LETTERS", 1)
    found = cal.rank(answers(12, 60))
    assert {each.group for each in found.systems} == {None}
    reason = found.metrics[0].group_reason
    assert reason is not None
    assert reason in str(found)
    assert found.to_dict()["group_reason"] == reason
    assert found.systems[-1].rank_low > 1, "ranks are known all the same"


_RANK = """
import sys
import calipers
found = calipers.rank(sys.argv[1], by="model")
assert len(found.to_json()) > 1e6
"""


@pytest.mark.long
@pytest.mark.parametrize(("systems", "seconds", "megabytes"), [(500, 10, 900), (1_000, 30, 1_500)])
def test_many_systems_in_seconds(
    tmp_path: Path, systems: int, seconds: float, megabytes: float
) -> None:
    """500 systems took 44 s; they take 3, and 1,000 take 8."""
    file = tmp_path / "answers.parquet"
    answers(systems, 200).write_parquet(file)
    taken = measure_process(tmp_path, "-c", _RANK, file)
    assert taken.seconds < seconds
    assert taken.megabytes < megabytes
