"""The careful analyst's peer: features once, then a loop that resamples NumPy columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.plain_python import is_self_correcting, normalize, step_count

Columns = dict[str, np.ndarray[Any, Any]]


def columns(path: Path) -> Columns:
    """A column per feature; NaN where a row has none."""
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    nan = float("nan")
    answers = [None if row["answer"] is None else normalize(row["answer"]) for row in rows]
    codes: dict[Any, int] = {}
    cots = [row["cot"] for row in rows]

    def number(name: str) -> list[float]:
        return [nan if row.get(name) is None else float(row[name]) for row in rows]

    tokens = [nan if cot is None else float(len(cot.split())) for cot in cots]
    prompt, completion = number("prompt_tokens"), number("completion_tokens")
    return {
        "correct": np.array(
            [
                nan if row["target"] is None else float(answer == normalize(row["target"]))
                for row, answer in zip(rows, answers, strict=True)
            ]
        ),
        "answer": np.array(
            [-1 if answer is None else codes.setdefault(answer, len(codes)) for answer in answers]
        ),
        "prob": np.array(number("prob_correct")),
        "cot_tokens": np.array(tokens),
        "cot_chars": np.array([nan if cot is None else float(len(cot)) for cot in cots]),
        "steps": np.array([nan if cot is None else float(step_count(cot)) for cot in cots]),
        "ratio": np.array(
            [
                nan if None in (cot, row["answer"]) else n / max(1, len(row["answer"].split()))
                for row, cot, n in zip(rows, cots, tokens, strict=True)
            ]
        ),
        "corrects": np.array(
            [nan if cot is None else float(is_self_correcting(cot)) for cot in cots]
        ),
        "prompt": np.array(prompt),
        "completion": np.array(completion),
        "total": np.array(prompt) + np.array(completion),
        "latency": np.array(number("latency_ms")),
    }


def resampled(found: Columns, resamples: int) -> list[list[float]]:
    """Every metric in each resample of the rows."""
    random = np.random.default_rng(0)
    n = len(found["correct"])
    results = []
    for _ in range(resamples):
        rows = random.integers(0, n, n)
        results.append(_metrics({name: column[rows] for name, column in found.items()}))
    return results


def _metrics(found: Columns) -> list[float]:
    correct, prob = found["correct"], found["prob"]
    known = ~np.isnan(correct) & ~np.isnan(prob)
    error = prob[known] - correct[known]
    bins = np.searchsorted(np.arange(1, 10) / 10, prob[known], side="left")
    counts = np.bincount(found["answer"][found["answer"] >= 0])
    shares = counts[counts > 0] / counts.sum()
    entropy = float(-(shares * np.log(shares)).sum())
    latency = np.sort(found["latency"][~np.isnan(found["latency"])])
    accuracy = float(np.nanmean(correct))
    means = ("cot_tokens", "cot_chars", "steps", "ratio", "corrects", "prompt", "completion")
    return [
        accuracy,
        1 - accuracy,
        float((error**2).mean()),
        float(np.abs(np.bincount(bins, error)).sum() / len(error)),
        entropy,
        entropy / float(np.log(len(shares))),
        *(float(np.nanmean(found[name])) for name in (*means, "total", "latency")),
        float(latency[-(-95 * len(latency) // 100) - 1]),
    ]
