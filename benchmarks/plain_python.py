"""The peer: a straightforward program, as one would write the documents' formulas down.

Rows are dicts, metrics are functions over lists, one process, the standard library alone. What a
row needs more than once (its normalised answer, its tokens) is computed once, as Z 7.2 asks.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Normalized = str | Decimal

NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]*)?|\.[0-9]+)")
STEP = re.compile(r"^\s*(\d+\.|-|\*)\s+")
PHRASES = ("actually", "sorry", "correction", "let me fix", "i made a mistake")
BIN_EDGES = [k / 10 for k in range(1, 11)]


def score(path: Path) -> dict[str, dict[str, float | None]]:
    """Every metric of Z 2 to Z 6, by model."""
    groups = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            groups[row["model"]].append(row)
    return {model: measure(rows) for model, rows in groups.items()}


def measure(rows: Sequence[Row]) -> dict[str, float | None]:
    """All metrics of one group."""
    answers = [row.get("answer") for row in rows]
    targets = [row.get("target") for row in rows]
    cots = [row.get("cot") for row in rows]
    probs = [row.get("prob_correct") for row in rows]
    prompts = [row.get("prompt_tokens") for row in rows]
    completions = [row.get("completion_tokens") for row in rows]
    latencies = [row.get("latency_ms") for row in rows]

    normalized = [None if answer is None else normalize(answer) for answer in answers]
    correct = [
        None if target is None else answer == normalize(target)
        for answer, target in zip(normalized, targets, strict=True)
    ]
    given = [answer for answer in normalized if answer is not None]
    cot_tokens = [None if cot is None else len(cot.split()) for cot in cots]
    return {
        "accuracy": accuracy(correct),
        "usr": usr(correct),
        "error_rate": error_rate(correct),
        "brier": brier(probs, correct),
        "ece": ece(probs, correct),
        "sce": sce(given),
        "sce_normalized": sce_normalized(given),
        "cot_tokens_mean": mean(cot_tokens),
        "cot_chars_mean": cot_chars_mean(cots),
        "step_count_mean": step_count_mean(cots),
        "ra_ratio_mean": ra_ratio_mean(cot_tokens, answers),
        "self_correction_rate": self_correction_rate(cots),
        "prompt_tokens_mean": mean(prompts),
        "completion_tokens_mean": mean(completions),
        "total_tokens_mean": total_tokens_mean(prompts, completions),
        "latency_mean_ms": mean(latencies),
        "latency_p95_ms": latency_p95_ms(latencies),
    }


def normalize(text: str) -> Normalized:
    """Trimmed and in lower case; a plain decimal number by its exact value."""
    text = text.strip().lower()
    if NUMBER.fullmatch(text):
        return Decimal(text.replace(",", ""))
    return text


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def accuracy(correct: Sequence[bool | None]) -> float | None:
    return mean(correct)


def usr(correct: Sequence[bool | None]) -> float | None:
    return mean([None if right is None else not right for right in correct])


def error_rate(correct: Sequence[bool | None]) -> float | None:
    right = accuracy(correct)
    return None if right is None else 1 - right


def brier(probs: Sequence[float | None], correct: Sequence[bool | None]) -> float | None:
    return mean(
        [
            None if prob is None or right is None else (prob - right) ** 2
            for prob, right in zip(probs, correct, strict=True)
        ]
    )


def ece(probs: Sequence[float | None], correct: Sequence[bool | None]) -> float | None:
    """Ten bins, each closed on the right."""
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for prob, right in zip(probs, correct, strict=True):
        if prob is not None and right is not None:
            bins[bisect_left(BIN_EDGES, prob)].append((prob, right))
    total = sum(len(pairs) for pairs in bins.values())
    if not total:
        return None
    error = 0.0
    for pairs in bins.values():
        confidence = sum(prob for prob, _ in pairs) / len(pairs)
        accurate = sum(right for _, right in pairs) / len(pairs)
        error += len(pairs) / total * abs(accurate - confidence)
    return error


def sce(answers: Sequence[Normalized]) -> float | None:
    counts = Counter(answers)
    total = len(answers)
    if not total:
        return None
    return -sum(count / total * math.log(count / total) for count in counts.values())


def sce_normalized(answers: Sequence[Normalized]) -> float | None:
    entropy = sce(answers)
    distinct = len(set(answers))
    if entropy is None:
        return None
    return entropy / math.log(distinct) if distinct > 1 else 0.0


def cot_chars_mean(cots: Sequence[str | None]) -> float | None:
    return mean([None if cot is None else len(cot) for cot in cots])


def step_count_mean(cots: Sequence[str | None]) -> float | None:
    return mean([None if cot is None else step_count(cot) for cot in cots])


def step_count(cot: str) -> int:
    lines = cot.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return sum(1 for line in lines if STEP.match(line))


def ra_ratio_mean(cot_tokens: Sequence[int | None], answers: Sequence[str | None]) -> float | None:
    return mean(
        [
            None if tokens is None or answer is None else tokens / max(1, len(answer.split()))
            for tokens, answer in zip(cot_tokens, answers, strict=True)
        ]
    )


def self_correction_rate(cots: Sequence[str | None]) -> float | None:
    return mean([None if cot is None else is_self_correcting(cot) for cot in cots])


def is_self_correcting(cot: str) -> bool:
    text = cot.lower()
    return any(phrase in text for phrase in PHRASES)


def total_tokens_mean(
    prompts: Sequence[int | None], completions: Sequence[int | None]
) -> float | None:
    return mean(
        [
            None if prompt is None or completion is None else prompt + completion
            for prompt, completion in zip(prompts, completions, strict=True)
        ]
    )


def latency_p95_ms(latencies: Sequence[float | None]) -> float | None:
    known = sorted(latency for latency in latencies if latency is not None)
    rank = -(-95 * len(known) // 100)  # the ceiling of 0.95 N, in integers
    return known[rank - 1] if known else None
