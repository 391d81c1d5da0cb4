"""The state of a run so far, for progress displays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import field
from decimal import Decimal
from time import monotonic
from typing import Any

from calipers.records.fields import TRUNCATED_REASONS
from calipers.records.judgment_shape import sum_judging_cost
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.simulated_user import sum_user_cost

_NUMBER = re.compile(r"[+-]?(?:(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?|\.\d+)", re.ASCII)
_MOST_TEXTS = 1_000  # distinct messages of errors; further ones count only by their kind
_TOKENS = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass(slots=True)
class Tally:
    """Counts, over all runs of the folder."""

    calls: int  # in all
    done: int = 0
    errors: int = 0
    truncated: int = 0  # replies that were cut off
    tokens: float = 0
    cost_usd: float = 0.0  # of the calls, their judges and simulated users
    judging_usd: float = 0.0  # of the judges alone
    user_usd: float = 0.0  # of the simulated users alone
    priced: bool = False
    decided: int = 0  # records that are right or wrong
    right: int = 0
    began: float = field(default_factory=monotonic)
    done_before: int = 0
    _failed: Counter[tuple[str, str]] = field(default_factory=Counter)  # by model and kind
    _messages: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)  # of each

    def judge(self, cost_usd: float) -> None:
        """Count what judges cost beside the call."""
        self.cost_usd += cost_usd
        self.judging_usd += cost_usd

    def add(self, record: Mapping[str, Any], *, sign: int = 1) -> None:
        """Count a record in, or out again."""
        self.done += sign
        if record.get("error") is not None:
            self.errors += sign
            model, error = str(record.get("model")), str(record["error"])
            way = (model, error.partition(":")[0])
            self._failed[way] += sign
            texts = self._messages.setdefault(way, Counter())
            if error in texts or len(texts) < _MOST_TEXTS:
                texts[error] += sign
        elif record.get("finish_reason") in TRUNCATED_REASONS:
            self.truncated += sign
        for name in _TOKENS:
            if name in record:
                self.tokens += sign * _as_number(record[name])
        judging, user = sum_judging_cost(record), sum_user_cost(record)
        if record.get("cost_usd") is not None or judging or user:
            self.priced = True
            self.cost_usd += sign * (_as_number(record.get("cost_usd")) + user)
            self.user_usd += sign * user
            self.judge(sign * judging)
        if (correct := is_correct(record)) is not None:
            self.decided += sign
            self.right += sign * correct

    def forget_failed(self) -> None:
        """Forget a failed call that is made again; its cost stays spent."""
        self.done -= 1
        self.errors -= 1

    @property
    def failures(self) -> tuple[tuple[int, str], ...]:
        """Return how many calls of a system failed in each way, with the most frequent text."""
        return tuple(
            (n, f"{way[0]}: {self._messages[way].most_common(1)[0][0]}")
            for way, n in self._failed.most_common()
            if n > 0
        )

    def begin(self) -> None:
        """Start measuring the speed."""
        self.began = monotonic()
        self.done_before = self.done

    @property
    def rate(self) -> float:
        """Calls per second in this run."""
        return (self.done - self.done_before) / max(1e-9, monotonic() - self.began)

    @property
    def seconds_left(self) -> float | None:
        """How long it will take at this rate."""
        return (self.calls - self.done) / self.rate if self.rate > 0 else None


def _as_number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def is_correct(record: Mapping[str, Any]) -> bool | None:
    """Say whether a record is right, as in accuracy; None if that is unknown."""
    if record.get("error") is not None:
        return None
    if isinstance(record.get("correct"), bool):
        return bool(record["correct"])
    target = record.get("target")
    if target is None:
        return None
    answer = record.get("answer")
    if isinstance(answer, str) and answer == target:
        return True
    return answer is not None and _normalize(answer) == _normalize(target)


def _normalize(value: Any) -> str | Decimal:
    text = str(value).strip().lower()
    return Decimal(text.replace(",", "")) if _NUMBER.fullmatch(text) else text


Watch = Callable[[Tally], AbstractContextManager[object]]
"""Shows a tally while work goes on."""
