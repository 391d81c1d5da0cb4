"""Records of two models with everything that may be missing."""

from __future__ import annotations

from typing import Any

import calipers as cal
from calipers.metrics import metrics_of

REASONING = [metric.name for metric in metrics_of("reasoning") if not metric.optional]


FROM_THEIR_FIELDS = {
    *(*REASONING, "token_efficiency", "time_score"),
    *("pass_at_2", "pass_hat_2"),
} - {"rag_usr"}  # of the records below


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
