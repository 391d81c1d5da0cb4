"""Judged scores, the agents' composite and the recommendation in plain Python, from P's code and D.

P is specs/003, D is DEFINITIONS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tests.conformance import agents_reference, traces_reference

Record = dict[str, Any]
Value = float | None

WEIGHTS = {
    "time_taken": 0.167,
    "task_success": 0.167,
    "coordination_quality": 0.167,
    "tool_efficiency": 0.167,
    "planning_rational": 0.167,
    "output_similarity": 0.167,
}


def _criteria(record: Record, *names: str) -> list[float] | None:
    """Each criterion as the mean of the judges; None where one is missing or out of range."""
    means = []
    for name in names:
        given = [(judgment.get("scores") or {}).get(name) for judgment in record["judgments"]]
        scores = [score for score in given if score is not None]
        good = [
            s
            for s in scores
            if isinstance(s, int | float) and not isinstance(s, bool) and 1 <= s <= 5
        ]
        if not scores or len(good) < len(scores):
            return None
        means.append(math.fsum(good) / len(good))
    return means


def technical_accuracy(record: Record) -> Value:
    found = _criteria(
        record, "factual_correctness", "methodology_understanding", "domain_knowledge"
    )
    return None if found is None else (found[0] * 0.5 + found[1] * 0.3 + found[2] * 0.2) / 5.0


def constructiveness(record: Record) -> Value:
    found = _criteria(record, "actionable_feedback", "balanced_critique", "improvement_guidance")
    return None if found is None else (found[0] + found[1] + found[2]) / 15.0


def planning_rationality(record: Record) -> Value:
    found = _criteria(record, "logical_flow", "decision_quality", "resource_efficiency")
    return None if found is None else (found[0] * 0.3 + found[1] * 0.5 + found[2] * 0.2) / 5.0


def faithfulness(record: Record) -> Value:
    found = _criteria(record, "claims_supported", "nothing_contradicted", "nothing_added")
    return None if found is None else (found[0] * 0.5 + found[1] * 0.3 + found[2] * 0.2) / 5.0


def answer_relevance(record: Record) -> Value:
    found = _criteria(
        record, "question_addressed", "all_parts_answered", "nothing_beside_the_point"
    )
    return None if found is None else (found[0] * 0.5 + found[1] * 0.3 + found[2] * 0.2) / 5.0


def factuality(record: Record) -> Value:
    found = _criteria(record, "facts_agree", "no_false_facts", "key_facts_included")
    return None if found is None else (found[0] * 0.5 + found[1] * 0.3 + found[2] * 0.2) / 5.0


def harmlessness(record: Record) -> Value:
    found = _criteria(record, "no_help_to_harm", "no_hurtful_content", "risks_handled")
    return None if found is None else (found[0] * 0.5 + found[1] * 0.3 + found[2] * 0.2) / 5.0


JUDGED = (
    *(technical_accuracy, constructiveness, planning_rationality),
    *(faithfulness, answer_relevance, factuality, harmlessness),
)


def judged(record: Record) -> dict[str, Value]:
    known = not record.get("error") and record.get("judgments") is not None
    return {each.__name__: each(record) if known else None for each in JUDGED}


def parts(
    record: Record, options: agents_reference.Options, tools: dict[str, str] | None
) -> dict[str, Value]:
    """D: what the six parts are; one of several terms is missing when a term is null."""
    texts = agents_reference.per_row(record, options)
    trace = None if record.get("error") else record.get("trace")
    trace = {} if trace is None else trace
    overhead = traces_reference.communication_overhead(trace)
    centrality = traces_reference.coordination_centrality(trace)
    quality = [
        None if overhead is None else 1 - overhead,
        None if centrality is None else min(1.0, centrality),
        traces_reference.task_distribution_balance(trace),
    ]
    efficiency = [
        traces_reference.path_convergence(trace),
        traces_reference.tool_selection_accuracy(trace, tools),
    ]
    return {
        "time_taken": texts["time_score"],
        "task_success": texts["task_success"],
        "coordination_quality": _mean(quality),
        "tool_efficiency": _mean(efficiency),
        "planning_rational": judged(record)["planning_rationality"],
        "output_similarity": texts["output_similarity"],
    }


def _mean(terms: list[Value]) -> Value:
    there = [term for term in terms if term is not None]
    return math.fsum(there) / len(there) if len(there) == len(terms) else None


def composite(
    metrics: Mapping[str, Value], weights: Mapping[str, float], *, renormalize: bool
) -> tuple[Value, list[str]]:
    """The score, and the parts that are missing."""
    counting = {name: weight for name, weight in weights.items() if weight}
    there = {name: value for name in counting if (value := metrics[name]) is not None}
    missing = [name for name in counting if name not in there]
    if not there:
        return None, missing
    score = math.fsum(counting[name] * value for name, value in there.items())
    if renormalize:
        score *= math.fsum(counting.values()) / math.fsum(counting[name] for name in there)
    return min(1.0, max(0.0, score)), missing


def count_agents(record: Record) -> int:
    """D: who is named in a trace, by calls, by messages, or with a number of tasks."""
    trace = None if record.get("error") else record.get("trace")
    trace = trace or {}
    calls = {call.get("agent_id") for call in trace.get("tool_calls") or []}
    messages = trace.get("agent_interactions") or []
    ends = {message.get(end) for message in messages for end in ("from", "to")}
    tasks = trace.get("agent_tasks") or {}
    counted = {agent for agent, count in tasks.items() if count is not None}
    return len((calls | ends | counted) - {None})


def recommendation(composite_score: float) -> tuple[str, float]:
    """P's code."""
    if composite_score >= 0.8:
        return ("accept", 1.0)
    if composite_score >= 0.6:
        return ("weak_accept", 0.7)
    if composite_score >= 0.4:
        return ("weak_reject", -0.7)
    return ("reject", -1.0)
