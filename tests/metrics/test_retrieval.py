"""Retrieval: the numbers of trec_eval, and what it leaves open."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import calipers as cal

METRICS = {
    "retrieval_precision_at_5": "P_5",
    "retrieval_recall_at_5": "recall_5",
    "retrieval_ndcg_at_10": "ndcg_cut_10",
    "retrieval_mrr": "recip_rank",
}


def measure(rows: list[dict[str, Any]], *names: str) -> dict[str, float | None]:
    metrics = cal.score(rows, metrics=names).groups[0].metrics
    return {name: metrics[name].value for name in names}


def test_values_are_those_of_trec_eval() -> None:
    trec_eval = pytest.importorskip("pytrec_eval")
    random, queries = Random(7), [f"q {number}" for number in range(60)]
    known = [f"doc-{number}" for number in range(30)]
    found = {query: random.sample(known, random.randint(1, 20)) for query in queries}
    relevant = {query: random.sample(known, random.randint(1, 9)) for query in queries}
    theirs = trec_eval.RelevanceEvaluator(
        {query: dict.fromkeys(ids, 1) for query, ids in relevant.items()},
        {"P_5", "recall_5", "ndcg_cut_10", "recip_rank"},
    ).evaluate(
        {query: {id_: -float(at) for at, id_ in enumerate(ids)} for query, ids in found.items()}
    )
    rows = [
        {
            "id": query,
            "passages": [{"id": id_, "text": "…"} for id_ in found[query]],
            "relevant_ids": relevant[query],
        }
        for query in queries
    ]
    ours = measure(rows, *METRICS)
    for name, their_name in METRICS.items():
        expected = sum(theirs[query][their_name] for query in queries) / len(queries)
        assert ours[name] == pytest.approx(expected, rel=1e-12)


def passages(*ids: Any) -> list[dict[str, Any]]:
    return [{"id": id_, "text": "Some text."} for id_ in ids]


@pytest.mark.parametrize(
    ("row", "values"),
    [
        ({"passages": passages("a", 7, "c"), "relevant_ids": [7]}, (0.2, 1.0, 0.5)),
        ({"passages": passages("a", "7"), "relevant_ids": [7]}, (0.2, 1.0, 0.5)),
        ({"passages": passages("a", "b"), "relevant_ids": "b"}, (0.2, 1.0, 0.5)),
        ({"passages": passages("a", "a", "b"), "relevant_ids": ["a", "b"]}, (0.4, 1.0, 1.0)),
        ({"passages": passages(None, "b"), "relevant_ids": ["b", "x"]}, (0.2, 0.5, 0.5)),
        ({"passages": [], "relevant_ids": ["b"]}, (0.0, 0.0, 0.0)),
        ({"passages": passages("a"), "relevant_ids": []}, (0.0, None, 0.0)),
        ({"passages": ["a text"], "relevant_ids": ["a"]}, (None, None, None)),
        ({"contexts": passages("a"), "relevant_ids": ["a"]}, (0.2, 1.0, 1.0)),
        ({"passages": passages("a"), "relevant_ids": None}, (None, None, None)),
    ],
)
def test_a_row(row: dict[str, Any], values: tuple[float | None, ...]) -> None:
    names = ("retrieval_precision_at_5", "retrieval_recall_at_5", "retrieval_mrr")
    other = {"passages": passages("x"), "relevant_ids": ["x"]}  # so that something is measured
    alone = cal.score([row | {"n": 0}, other | {"n": 1}], by="n", metrics=names).groups[0].metrics
    assert tuple(alone[name].value for name in names) == values


def test_any_number_of_passages_can_be_asked_for() -> None:
    rows = [{"passages": passages(*"abcdef"), "relevant_ids": ["f"]}]
    assert measure(rows, "retrieval_recall_at_5", "retrieval_recall_at_6") == {
        "retrieval_recall_at_5": 0.0,
        "retrieval_recall_at_6": 1.0,
    }
    with pytest.raises(cal.UsageError, match="no metric is called retrieval_recall_at_0"):
        measure(rows, "retrieval_recall_at_0")
