"""What figures are drawn of, histograms and bins of confidence, on every engine: plain counts."""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.metrics.declare.distributions import WIDE_EDGES as EDGES
from calipers.support.strict_json import to_plain
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.files import write_lines

_amounts = st.one_of(st.sampled_from([0, 0.1, 0.125, 1, 8, 10, 1e9, 1e300]), st.floats(0, 1e12))
_rows = st.fixed_dictionaries(
    {"model": st.sampled_from("ab")},
    optional={
        "latency_ms": st.one_of(st.none(), _amounts),
        "prob_correct": st.one_of(st.none(), st.sampled_from([0, 0.1, 0.5, 1]), st.floats(0, 1)),
        "correct": st.one_of(st.none(), st.booleans()),
        "error": st.sampled_from([None, None, "timeout: none"]),
    },
)


def plain_histogram(values: list[float]) -> dict[str, Any] | None:
    """Count value by value; the bins at both ends that hold none are left out."""
    counts = [0] * (len(EDGES) - 1)
    for value in values:
        counts[min(bisect_right(EDGES, value), len(EDGES) - 1) - 1] += 1
    held = [place for place, count in enumerate(counts) if count]
    if not held:
        return None
    return {
        "edges": list(EDGES[held[0] : held[-1] + 2]),
        "counts": counts[held[0] : held[-1] + 1],
    }


def plain_bins(rows: list[dict[str, Any]], bins: int) -> list[tuple[float, float, int, float]]:
    """Ends, size and accuracy of each bin that holds rows, closed on the right, 0 in the first."""
    found: dict[int, list[bool]] = {}
    for row in rows:
        sure, right = row.get("prob_correct"), row.get("correct")
        if sure is not None and right is not None:
            place = next(k for k in range(bins) if k == bins - 1 or sure <= (k + 1) / bins)
            found.setdefault(place, []).append(right)
    return [
        (place / bins, (place + 1) / bins, len(right), sum(right) / len(right))
        for place, right in sorted(found.items())
    ]


def check(score: cal.Score, rows: list[dict[str, Any]], bins: int) -> None:
    for group in score.groups:
        own = [
            row for row in rows if row["model"] == group.by["model"] and row.get("error") is None
        ]
        values = [row["latency_ms"] for row in own if row.get("latency_ms") is not None]
        drawn = group.histograms.get("latency_ms")
        assert to_plain(drawn) == plain_histogram(values)
        told = [(each.low, each.high, each.n, each.accuracy) for each in group.reliability]
        assert told == plain_bins(own, bins)
        sure = sum(each.n * each.confidence for each in group.reliability)
        right = sum(each.n * each.accuracy for each in group.reliability)
        stated = [
            row
            for row in own
            if row.get("prob_correct") is not None and row.get("correct") is not None
        ]
        assert sure == pytest.approx(sum(row["prob_correct"] for row in stated))
        assert right == pytest.approx(sum(row["correct"] for row in stated))


@given(rows=st.lists(_rows, min_size=1, max_size=30), bins=st.integers(1, 12))
def test_one_machine_counts_as_plain_python(rows: list[dict[str, Any]], bins: int) -> None:
    check(cal.score(rows, by="model", profile="reasoning", bins=bins), rows, bins)


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_engines_count_alike(engine: str, tmp_path: Path) -> None:
    rows = [
        {
            "id": str(number),
            "model": "ab"[number % 2],
            "latency_ms": 0.05 * 1.7 ** (number % 40),
            "prob_correct": number % 11 / 10,
            "correct": number % 3 == 0,
        }
        for number in range(300)
    ]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    check(cal.score(path, by="model", profile="reasoning", engine=engine), rows, 10)


def test_the_json_holds_them() -> None:
    rows = [{"id": "a", "prob_correct": 0.9, "correct": True, "latency_ms": 12}]
    [group] = json.loads(cal.score(rows, profile="reasoning").to_json())["groups"]
    assert group["histograms"] == {"latency_ms": {"edges": [10.0, 12.5], "counts": [1]}}
    assert group["reliability"][0]["n"] == 1
    [plain] = json.loads(cal.score(rows).to_json())["groups"]
    assert "histograms" not in plain
    assert "reliability" not in plain
