"""A second peer: one pass, running sums, no row kept. As fast as plain Python gets with care.

It knows its data: every row has a target, a cot, a probability, tokens and a latency.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

from benchmarks.plain_python import BIN_EDGES, PHRASES, Normalized, normalize

NUMBERED = re.compile(r"\d+\.\s")

_normalized = cache(normalize)  # answers repeat


class Sums:
    """What one group adds up to."""

    def __init__(self) -> None:
        self.rows = self.right = self.answered = 0
        self.squared_error = 0.0
        self.bin_rows, self.bin_right, self.bin_probs = [0] * 10, [0] * 10, [0.0] * 10
        self.answers: Counter[Normalized] = Counter()
        self.tokens = self.chars = self.steps = self.correcting = 0
        self.ratio = 0.0
        self.prompt = self.completion = 0
        self.latencies: list[float] = []


def score(path: Path) -> dict[str, dict[str, float | None]]:
    """Every metric of Z 2 to Z 6, by model."""
    groups: dict[str, Sums] = defaultdict(Sums)
    decode = json.JSONDecoder().raw_decode
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row, _ = decode(line)
            sums = groups[row["model"]]
            answer, cot, prob = row["answer"], row["cot"], row["prob_correct"]

            tokens = len(cot.split())
            right = False
            if answer is not None:
                normalized = _normalized(answer)
                right = normalized == _normalized(row["target"])
                sums.answered += 1
                sums.answers[normalized] += 1
                sums.ratio += tokens / (len(answer.split()) or 1)
            sums.rows += 1
            sums.right += right

            sums.squared_error += (prob - right) ** 2
            index = bisect_left(BIN_EDGES, prob)
            sums.bin_rows[index] += 1
            sums.bin_right[index] += right
            sums.bin_probs[index] += prob

            sums.tokens += tokens
            sums.chars += len(cot)
            sums.steps += _steps(cot)
            lower = cot.lower()
            for phrase in PHRASES:
                if phrase in lower:
                    sums.correcting += 1
                    break

            sums.prompt += row["prompt_tokens"]
            sums.completion += row["completion_tokens"]
            sums.latencies.append(row["latency_ms"])
    return {model: _values(sums) for model, sums in groups.items()}


def _steps(cot: str) -> int:
    """Look at how a line begins before asking a pattern."""
    if "\r" in cot:
        cot = cot.replace("\r\n", "\n").replace("\r", "\n")
    steps = 0
    for line in cot.split("\n"):
        text = line.lstrip()
        first = text[:1]
        if first in {"-", "*"}:
            steps += text[1:2].isspace()
        elif first.isdecimal():
            steps += NUMBERED.match(text) is not None
    return steps


def _values(sums: Sums) -> dict[str, float | None]:
    rows, answered = sums.rows, sums.answered
    gaps = zip(sums.bin_right, sums.bin_probs, strict=True)
    entropy = -sum(n / answered * math.log(n / answered) for n in sums.answers.values())
    return {
        "accuracy": sums.right / rows,
        "usr": 1 - sums.right / rows,
        "error_rate": 1 - sums.right / rows,
        "brier": sums.squared_error / rows,
        "ece": sum(abs(right - probs) for right, probs in gaps) / rows,
        "sce": entropy,
        "sce_normalized": entropy / math.log(len(sums.answers)) if len(sums.answers) > 1 else 0.0,
        "cot_tokens_mean": sums.tokens / rows,
        "cot_chars_mean": sums.chars / rows,
        "step_count_mean": sums.steps / rows,
        "ra_ratio_mean": sums.ratio / answered,
        "self_correction_rate": sums.correcting / rows,
        "prompt_tokens_mean": sums.prompt / rows,
        "completion_tokens_mean": sums.completion / rows,
        "total_tokens_mean": (sums.prompt + sums.completion) / rows,
        "latency_mean_ms": sum(sums.latencies) / rows,
        "latency_p95_ms": sorted(sums.latencies)[-(-95 * rows // 100) - 1],
    }
