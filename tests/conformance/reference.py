"""Every reasoning metric in plain Python: slow, literal, and made to be checked against.

Written from the definitions alone: ``Z`` is the reasoning document, ``D`` the page of decisions.
A function gets the records of one group.

>>> REFERENCES["accuracy"]([{"answer": "42.0", "target": "42"}], Options())
Expected(value=1.0, n=1, missing=0, unanswered=0)
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.equations_reference import wrong_share
from tests.conformance.grounding_reference import unsupported_share

Record = dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """What a metric must be: ``n + missing + errors == records``."""

    value: float | None
    n: int
    missing: int
    unanswered: int | None = None


@dataclass(frozen=True)
class Options:
    """The settings that move a number."""

    normalize: str = "numeric"
    bins: int = 10


Reference = Callable[[list[Record], Options], Expected]

# --- Fields: D, "Everywhere" ---


def _field(record: Record, name: str) -> Any:
    """The value of a field; absent and NaN are null."""
    value = record.get(name)
    return None if isinstance(value, float) and math.isnan(value) else value


def _text(record: Record, name: str) -> str | None:
    """A text field; a JSON number or boolean in it is read as its JSON text."""
    value = _field(record, name)
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _called(records: list[Record]) -> list[Record]:
    """The records whose call did not fail."""
    return [r for r in records if (e := _field(r, "error")) is None or e is False or e == ""]


def _mean_of(per_row: Callable[[Record, Options], float | None]) -> Reference:
    """The mean over the rows that have a value; null when none has."""

    def reference(records: list[Record], options: Options) -> Expected:
        rows = _called(records)
        values = [value for row in rows if (value := per_row(row, options)) is not None]
        n = len(values)
        return Expected(math.fsum(values) / n if n else None, n, len(rows) - n)

    return reference


# --- Answers: Z 2 to Z 4 ---

_PLAIN_DECIMAL = re.compile(r"([+-]?)([0-9]+|[0-9]{1,3}(?:,[0-9]{3})+|(?=\.[0-9]))(?:\.([0-9]*))?")


def _normalize(text: str, options: Options) -> str:
    """D, `normalize`: equal texts, or equal exact decimal values, give the same string."""
    text = text.strip().lower()
    number = _PLAIN_DECIMAL.fullmatch(text) if options.normalize == "numeric" else None
    if number is None:
        return text
    whole = number[2].replace(",", "").lstrip("0")
    part = (number[3] or "").rstrip("0")
    sign = "-" if number[1] == "-" and (whole or part) else ""
    return sign + (whole or "0") + ("." + part if part else "")


def _answer(record: Record, options: Options) -> str | None:
    answer = _text(record, "answer")
    return None if answer is None else _normalize(answer, options)


def _correct(record: Record, options: Options) -> bool | None:
    """D: the recorded value wins; no target, undecided; a target and no answer, wrong."""
    recorded: bool | None = _field(record, "correct")
    target = _text(record, "target")
    if recorded is not None or target is None:
        return recorded
    return _answer(record, options) == _normalize(target, options)


def _wrong(record: Record, options: Options) -> float | None:
    """Z 2.2 and, as 1 - ACC, Z 2.3."""
    correct = _correct(record, options)
    return None if correct is None else float(not correct)


def _accuracy(records: list[Record], options: Options) -> Expected:
    """Z 2.1."""
    mean = _mean_of(_correct)(records, options)
    open_rows = [row for row in _called(records) if _field(row, "correct") is None]
    asked = [row for row in open_rows if _text(row, "target") is not None]
    unanswered = sum(_text(row, "answer") is None for row in asked)
    return Expected(mean.value, mean.n, mean.missing, unanswered)


def _squared_error(record: Record, options: Options) -> float | None:
    """Z 3.1."""
    prob, correct = _field(record, "prob_correct"), _correct(record, options)
    return None if prob is None or correct is None else float((prob - correct) ** 2)


def _ece(records: list[Record], options: Options) -> Expected:
    """Z 3.2 with D's bins, closed on the right; 0 is in the first."""
    rows = _called(records)
    bins: dict[int, list[tuple[float, bool]]] = {}
    for row in rows:
        prob, correct = _field(row, "prob_correct"), _correct(row, options)
        if prob is not None and correct is not None:
            index = next(k for k in range(1, options.bins + 1) if prob <= k / options.bins)
            bins.setdefault(index, []).append((prob, correct))
    n = sum(len(pairs) for pairs in bins.values())
    gaps = [abs(math.fsum(p for p, _ in b) - sum(c for _, c in b)) for b in bins.values()]
    return Expected(math.fsum(gaps) / n if n else None, n, len(rows) - n)


def _auroc(records: list[Record], options: Options) -> Expected:
    """Every right row against every wrong one, equal confidence half; null without both."""
    rows = _called(records)
    right: list[float] = []
    wrong: list[float] = []
    for row in rows:
        prob, correct = _field(row, "prob_correct"), _correct(row, options)
        if prob is not None and correct is not None:
            (right if correct else wrong).append(prob)
    if not right or not wrong:
        return Expected(None, 0, len(rows))
    won = sum((r > w) + (r == w) / 2 for r in right for w in wrong)
    n = len(right) + len(wrong)
    return Expected(won / len(right) / len(wrong), n, len(rows) - n)


def _entropy(answers: list[str]) -> float:
    """Z 4.1, natural log."""
    n = len(answers)
    return math.fsum(count / n * math.log(n / count) for count in Counter(answers).values())


def _normalized_entropy(answers: list[str]) -> float:
    distinct = len(set(answers))
    return _entropy(answers) / math.log(distinct) if distinct > 1 else 0.0


def _of_answers(figure: Callable[[list[str]], float]) -> Reference:
    def reference(records: list[Record], options: Options) -> Expected:
        rows = _called(records)
        answers = [answer for row in rows if (answer := _answer(row, options)) is not None]
        n = len(answers)
        return Expected(figure(answers) if n else None, n, len(rows) - n)

    return reference


# --- Chain of thought: Z 5 ---

_STEP = re.compile(r"^\s*(\d+\.|-|\*)\s+")
_PHRASES = ("actually", "sorry", "correction", "let me fix", "i made a mistake")


def _lines(cot: str) -> list[str]:
    return re.split(r"\r\n|\n|\r", cot)


def _of_cot(figure: Callable[[str], float | None]) -> Reference:
    return _mean_of(lambda row, _: None if (c := _text(row, "cot")) is None else figure(c))


def _step_count(cot: str) -> float:
    return sum(_STEP.match(line) is not None for line in _lines(cot))


def _self_correcting(cot: str) -> float:
    return any(phrase in cot.lower() for phrase in _PHRASES)


def _ra_ratio(record: Record, _: Options) -> float | None:
    """Z 5.4."""
    cot, answer = _text(record, "cot"), _text(record, "answer")
    if cot is None or answer is None:
        return None
    return len(cot.split()) / max(1, len(answer.split()))


# --- Efficiency: Z 6 ---


def _of_fields(*names: str) -> Reference:
    """The mean of a field, or of the sum of several where all are there."""

    def per_row(record: Record, _: Options) -> float | None:
        values = [_field(record, name) for name in names]
        return None if None in values else sum(values)

    return _mean_of(per_row)


def _latency(percent: int) -> Reference:
    """Z 6.2: nearest rank, in integers."""

    def at_rank(records: list[Record], _: Options) -> Expected:
        rows = _called(records)
        known = sorted(ms for row in rows if (ms := _field(row, "latency_ms")) is not None)
        n = len(known)
        rank = -(-percent * n // 100)
        return Expected(float(known[rank - 1]) if n else None, n, len(rows) - n)

    return at_rank


# --- Several runs of a task: Z 8, D "Beyond Z's single pass" ---

Run = tuple[str | None, bool | None]  # normalised answer, correct


def _over_tasks(figure: Callable[[list[Run]], float], *, needs: tuple[int, ...]) -> Reference:
    """The mean over the tasks with two or more runs that have what is needed (0 or 1 of Run)."""

    def reference(records: list[Record], options: Options) -> Expected:
        rows = _called(records)
        tasks: dict[str | int, list[Run]] = {}
        for number, row in enumerate(rows):
            run = _answer(row, options), _correct(row, options)
            if all(run[need] is not None for need in needs):
                task = _text(row, "id")  # without ids every row is a task of its own
                tasks.setdefault(number if task is None else task, []).append(run)
        values = [(figure(runs), len(runs)) for runs in tasks.values() if len(runs) > 1]
        value = math.fsum(v for v, _ in values) / len(values) if values else None
        n = sum(count for _, count in values)
        return Expected(value, n, len(rows) - n)

    return reference


def _mode(runs: list[Run]) -> tuple[str, int]:
    """The most common answer, of a tie the smallest, and how many runs gave it."""
    counts = Counter(str(answer) for answer, _ in runs)
    return min(counts.items(), key=lambda item: (-item[1], item[0]))


def _mode_is_right(runs: list[Run]) -> float:
    """It is, if more than half of the runs that gave it are correct."""
    mode, count = _mode(runs)
    return 2 * sum(correct is True for answer, correct in runs if answer == mode) > count


# --- Retrieval: Z 8, and D ---


def _unsupported(record: Record, options: Options) -> float | None:
    del options
    answer, passages = _text(record, "answer"), _field(record, "passages")
    return None if answer is None or passages is None else unsupported_share(answer, passages)


def _retrieve(
    record: Record, measure: Callable[[list[int], int], float], *, some: bool = False
) -> float | None:
    """A number of the ranks of the relevant passages, and of how many there are."""
    passages, relevant = _field(record, "passages"), _field(record, "relevant_ids")
    if not isinstance(passages, list) or relevant is None or (some and not relevant):
        return None
    ids = [each.get("id") if isinstance(each, dict) else None for each in passages]
    if ids and not any(each is not None for each in ids):
        return None
    wanted = {str(each) for each in relevant}
    texts = [None if each is None else str(each) for each in ids]
    ranks = [rank for rank, each in enumerate(texts, 1) if each in wanted]
    return measure(
        [rank for rank in ranks if texts.index(texts[rank - 1]) + 1 == rank], len(wanted)
    )


def _ndcg(ranks: list[int], relevant: int) -> float:
    gains = [1 / math.log2(rank + 1) for rank in range(1, 6)]
    return sum(gains[rank - 1] for rank in ranks if rank <= 5) / sum(gains[:relevant])


REFERENCES: dict[str, Reference] = {
    "accuracy": _accuracy,
    "usr": _mean_of(_wrong),
    "error_rate": _mean_of(_wrong),
    "brier": _mean_of(_squared_error),
    "ece": _ece,
    "auroc": _auroc,
    "sce": _of_answers(_entropy),
    "sce_normalized": _of_answers(_normalized_entropy),
    "cot_tokens_mean": _of_cot(lambda cot: len(cot.split())),
    "cot_chars_mean": _of_cot(len),
    "step_count_mean": _of_cot(_step_count),
    "ra_ratio_mean": _mean_of(_ra_ratio),
    "self_correction_rate": _of_cot(_self_correcting),
    "prompt_tokens_mean": _of_fields("prompt_tokens"),
    "completion_tokens_mean": _of_fields("completion_tokens"),
    "total_tokens_mean": _of_fields("prompt_tokens", "completion_tokens"),
    "latency_mean_ms": _of_fields("latency_ms"),
    **{f"latency_p{percent}_ms": _latency(percent) for percent in (50, 95, 99)},
    "answer_entropy": _over_tasks(lambda runs: _entropy([str(a) for a, _ in runs]), needs=(0,)),
    "determinism_index": _over_tasks(lambda runs: _mode(runs)[1] / len(runs), needs=(0,)),
    "mode_accuracy": _over_tasks(_mode_is_right, needs=(0, 1)),
    "stability": _over_tasks(lambda runs: len({c for _, c in runs}) == 1, needs=(1,)),
    "math_usr": _of_cot(wrong_share),
    "rag_usr": _mean_of(_unsupported),
    "retrieval_mrr": _mean_of(
        lambda row, _: _retrieve(row, lambda ranks, _: 1 / min(ranks, default=math.inf))
    ),
    "retrieval_precision_at_5": _mean_of(
        lambda row, _: _retrieve(row, lambda ranks, _: sum(rank <= 5 for rank in ranks) / 5)
    ),
    "retrieval_recall_at_5": _mean_of(
        lambda row, _: _retrieve(
            row, lambda ranks, relevant: sum(rank <= 5 for rank in ranks) / relevant, some=True
        )
    ),
    "retrieval_ndcg_at_5": _mean_of(lambda row, _: _retrieve(row, _ndcg, some=True)),
}
