"""A shape for every metric that the others leave out: records of a few kinds, each so often.

The true value of a mean is that of its kinds, each scored alone, weighted by how often they come.
`tests/statistics/test_coverage.py` asserts what `python -m benchmarks.coverage` publishes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import polars as pl

import calipers as cal
from calipers.metrics import catalogue
from calipers.metrics.families.judged import RUBRICS
from tests import simulated, simulated_scenarios
from tests.shapes import Shape
from tests.simulated import Draw, Rng, table
from tests.unseen_shapes import power_mean, tried

Kinds = Sequence[tuple[float, Mapping[str, Any]]]  # how often, and the record

CHAINS: Kinds = (
    (0.4, {"answer": "12", "cot": "1. 2 + 2 = 4\n2. 4 * 3 = 12"}),
    (0.2, {"answer": "7", "cot": "- 3 + 4 = 7\n- 7 * 2 = 15\n- so it is 7"}),
    (0.2, {"answer": "10", "cot": "3 * 3 = 9, and 9 + 1 = 11. Actually, 9 + 1 = 10"}),
    (0.1, {"answer": "no", "cot": "1. 1 + 1 = 3"}),
    (
        0.1,
        {"answer": "it is 42", "cot": "1. one\n2. two\n3. three\n4. 6 * 7 = 42\n5. sorry for it"},
    ),
)
TEXTS: Kinds = tuple(
    (chance, {"answer": answer, "reference": "the method is sound and the tables are clear"})
    for chance, answer in (
        (0.3, "the method is sound and the tables are clear"),
        (0.3, "the method is sound but the tables are small"),
        (0.2, "tables and figures of a sound method"),
        (0.1, "clear"),
        (0.1, "nothing of this kind was found"),
    )
)
OPTIMAL = Path(__file__).with_name("optimal_tools.json")


def _trace(tools: str, messages: str, tasks: Sequence[int]) -> dict[str, Any]:
    """A trace with tools and messages by their first letters; capitals are sent to the lead."""
    named = {"s": "search", "e": "editor", "t": "think"}
    kinds = {"c": "coordination", "r": "task_request", "d": "result_delivery"}
    calls = [
        {"tool_name": named[each], "context": "find" if at % 2 else "write"}
        for at, each in enumerate(tools)
    ]
    sent = [
        {
            "from": f"agent {at % 3}" if each.isupper() else "lead",
            "to": "lead" if each.isupper() else f"agent {at % 3}",
            "type": kinds[each.lower()],
        }
        for at, each in enumerate(messages)
    ]
    agents = {f"agent {at}": several for at, several in enumerate(tasks)}
    whole = {"tool_calls": calls, "agent_interactions": sent, "agent_tasks": agents}
    return {"trace": json.dumps(whole), "duration_seconds": float(len(tools))}


TRACES: Kinds = (
    (0.4, _trace("est", "rrD", (2, 2, 2))),
    (0.2, _trace("esest", "rc", (3, 2, 1))),
    (0.2, _trace("ssets", "cCrD", (5, 1))),
    (0.1, _trace("es", "r", (4, 1, 1, 2))),
    (0.1, _trace("tttse", "cccd", (1, 9))),
)


def _judged(*criteria: str, of: int = 1, **told: str) -> Kinds:
    """Judgments with a cost, mostly 5 of 5, or as large a part of 1."""
    return tuple(
        (
            chance,
            {
                "judgments": json.dumps(
                    [{**told, "scores": dict.fromkeys(criteria, score / of), "cost_usd": usd}]
                )
            },
        )
        for chance, score, usd in ((0.6, 5, 0.01), (0.25, 4, 0.02), (0.1, 3, 0.02), (0.05, 1, 0.05))
    )


REVIEWS = _judged("actionable_feedback", "balanced_critique", "improvement_guidance")
PLANS = _judged("logical_flow", "decision_quality", "resource_efficiency")
OF_SPECIFICATIONS = ("technical_accuracy", "constructiveness", "planning_rationality")
BUILT_IN = {
    rubric.name: _judged(
        *rubric.criteria, of=5 if rubric.name == "quality" else 1, rubric=rubric.name
    )
    for rubric in RUBRICS
    if rubric.name not in OF_SPECIFICATIONS
}
PASSAGES = [
    {"id": "a", "text": "The bridge over the Elbe was opened in 1903 and carries two tracks."},
    {"id": "b", "text": "Its arches are of sandstone; the engineer was Ilse Brandt."},
    {"id": "c", "text": "A ferry crossed the river before."},
]
GROUNDED: Kinds = tuple(
    (
        chance,
        {
            "answer": answer,
            "passages": [PASSAGES["abc".index(each)] for each in order],
            "relevant_ids": [*relevant],
        },
    )
    for chance, answer, order, relevant in (
        (0.4, "The bridge was opened in 1903. Its arches are of sandstone.", "abc", "ab"),
        (0.2, "The bridge was opened in 1911. Its arches are of sandstone.", "bac", "a"),
        (0.2, "Ilse Brandt was the engineer.", "cab", "b"),
        (0.1, "It cost nine million crowns and fell in 1946.", "ca", "b"),
        (0.1, "The bridge carries two tracks over the Elbe.", "acb", "abc"),
    )
)


def of_kinds(kinds: Kinds, tasks: int) -> Draw:
    """Records of these kinds, drawn each by itself."""
    records = pl.DataFrame([record for _, record in kinds]).with_row_index("_kind")
    chances = [chance for chance, _ in kinds]

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        drawn = table({"_kind": rng.choice(len(kinds), (sets, tasks, 1), p=chances)})
        return drawn.cast({"_kind": pl.UInt32}).join(records, on="_kind").drop("_kind")

    return draw


def _means(kinds: Kinds, metrics: Sequence[str], settings: Mapping[str, Any]) -> dict[str, float]:
    """The true means: every kind's own value, as often as it comes."""
    records = [{**record, "kind": number} for number, (_, record) in enumerate(kinds)]
    score = cal.score(records, by="kind", metrics=metrics, **settings)
    found = dict.fromkeys(metrics, 0.0)
    for group in score.groups:
        for metric in metrics:
            value = group.metrics[metric].value
            assert isinstance(value, float | int), metric
            found[metric] += kinds[int(group.by["kind"])][0] * value
    return found


def _by_kinds() -> Iterator[Shape]:
    lexical = {"semantic_model": "lexical"}
    tools = {"optimal_tools": OPTIMAL}
    measured: tuple[tuple[str, Kinds, Mapping[str, Any], str], ...] = (
        ("chains", CHAINS, {}, "cot_tokens_mean cot_chars_mean step_count_mean ra_ratio_mean"),
        ("chains", CHAINS, {}, "math_usr self_correction_rate"),
        ("texts", TEXTS, lexical, "cosine_similarity jaccard_similarity semantic_similarity"),
        ("texts", TEXTS, lexical, "output_similarity task_success"),
        ("judgments", REVIEWS, {}, "constructiveness judge_cost_usd"),
        ("judgments", PLANS, {}, "planning_rationality"),
        *(("judgments", kinds, {}, name) for name, kinds in BUILT_IN.items()),
        ("answers", GROUNDED, {}, "rag_usr retrieval_mrr retrieval_precision_at_5"),
        ("answers", GROUNDED, {}, "retrieval_recall_at_5 retrieval_ndcg_at_5"),
        ("traces", TRACES, tools, "path_convergence tool_selection_accuracy time_score"),
        ("traces", TRACES, tools, "communication_overhead coordination_centrality"),
        ("traces", TRACES, tools, "task_distribution_balance agent_composite"),
    )
    for what, kinds, settings, metrics in measured:
        for metric, truth in _means(kinds, metrics.split(), settings).items():
            yield Shape(
                name=f"{what} of {len(kinds)} kinds, n = 60",
                metric=metric,
                method=catalogue()[metric].interval.name,
                draw=of_kinds(kinds, 60),
                truth=truth,
                settings=settings,
                least=0.90 if metric == "judge_cost_usd" else 0.93,  # a few cost five times as much
                most=1.0,
            )


def _lengths() -> Iterator[Shape]:
    """Gamma distributed: three of four standard deviations below 2."""
    for metric, columns in (
        ("prompt_tokens_mean", ("prompt_tokens",)),
        ("completion_tokens_mean", ("completion_tokens",)),
        ("total_tokens_mean", ("prompt_tokens", "completion_tokens")),
        ("cost_usd", ("cost_usd",)),
        ("duration_seconds", ("duration_seconds",)),
    ):
        yield Shape(
            name="gamma(4), n = 50",
            metric=metric,
            method="log t",
            draw=partial(_gamma, columns=columns),
            truth=4.0 * len(columns),
        )


def _gamma(rng: Rng, sets: int, columns: Sequence[str]) -> pl.DataFrame:
    return table({name: rng.gamma(4, 1, (sets, 50, 1)) for name in columns})


def _shares() -> Iterator[Shape]:
    share = partial(Shape, method="wilson")
    for metric in ("usr", "error_rate"):
        yield share(
            name="p = 0.2, n = 100", metric=metric, draw=simulated.right(0.8, 100), truth=0.2
        )
    passing = simulated_scenarios.passed(0.7, 0.9, 100)
    overall = simulated_scenarios.weighted_share(1, 0.7, 0.9)
    yield share(name="p = 0.84, n = 100", metric="pass_rate", draw=passing, truth=overall)
    yield share(
        name="p = 0.7, about 30 of 100 rows adversarial",
        metric="safety_rate",
        draw=passing,
        truth=0.7,
        most=1.0,
    )
    yield share(
        name="0.9, about 40 of 100 rows",
        metric="recall",
        draw=simulated_scenarios.predictions(100),
        truth=0.9,
    )


def _others() -> Iterator[Shape]:
    for percent, n in ((50, 100), (99, 1000)):
        yield Shape(
            name=f"lognormal, n = {n:,}",
            metric=f"latency_p{percent}_ms",
            method="order statistics",
            draw=simulated.times(n, heavy_tailed=True),
            truth=math.exp(NormalDist().inv_cdf(percent / 100)),
        )

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        chance = rng.beta(3, 1.5, (sets, 40, 1))
        return table({"passed": rng.random(chance.shape) < chance, "impl_rate": chance})

    yield Shape(
        name="passes as its score says, n = 40",
        metric="composite_score",
        method="logit t",
        draw=draw,
        truth=2 / 3,
    )
    for k in (1, 2, 3, 4, 5, 10):
        for metric, truth in (
            (f"pass_at_{k}", 1 - power_mean(1.5, 2, k)),
            (f"pass_hat_{k}", power_mean(2, 1.5, k)),
        ):
            yield Shape(
                name="40 tasks × 10 runs, beta(2, 1.5)",
                metric=metric,
                method="logit t",
                draw=tried(2, 1.5, 40, 10),
                truth=truth,
                most=1.0,
            )
    yield Shape(
        name="easy tasks, as many runs as tries, 100 tasks × 10 runs",
        metric="pass_at_10",
        method="logit t",
        draw=tried(3, 0.5, 100, 10),
        truth=1 - power_mean(0.5, 3, 10),
        most=1.0,
    )


EVERY_OTHER = (*_by_kinds(), *_lengths(), *_shares(), *_others())
