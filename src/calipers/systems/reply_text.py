r"""Extraction from a reply: the answer, the reasoning before it, and the stated confidence.

>>> rule = AnswerRule(after="ANSWER:")
>>> rule.read("Seven and nine. So:\nANSWER: 16")
('16', 'Seven and nine. So:')
>>> rule.read("I do not know.")
(None, 'I do not know.')
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from calipers.support.patterns import find_last

ASK_CONFIDENCE = (
    "Then, on a line of its own, say how likely your answer is right: CONFIDENCE: <0 to 1>"
)

_CONFIDENCE = (
    r"(?im)^[\s*_`>-]*confidence[\s*_`]*[:=][\s*_`]*((?:[0-9]+(?:[.,][0-9]+)?|[.,][0-9]+)\s*%?)"
    r"[\s*_`.]*$"
)

_THINK = re.compile(r"\s*<(?P<tag>think|thinking)>", re.IGNORECASE)
_ROUNDING = 0.01  # a log probability is not above 0, but for rounding
_IMPOSSIBLE = -1e6  # below this, as good as minus infinity


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """The part of a reply that is the answer; with neither, all of the text."""

    after: str | None = None
    regex: str | None = None

    @property
    def is_given(self) -> bool:
        """Return True if there is anything to look for."""
        return self.after is not None or self.regex is not None

    def read(self, text: str) -> tuple[str | None, str | None]:
        """Return the answer and the chain of thought; of several matches the last counts."""
        if not self.is_given:
            return text.strip() or None, None
        start, answer = self._find(text)
        if answer is None:
            return None, text.strip()
        return answer.strip() or None, text[:start].strip()

    def _find(self, text: str) -> tuple[int, str | None]:
        if self.after is not None:
            before, mark, answer = text.rpartition(self.after)
            return len(before), answer if mark else None
        assert self.regex is not None
        match = find_last(self.regex, text)
        return (0, None) if match is None else (match.start, match.group)


def split_thought(text: str) -> tuple[str, str | None]:
    r"""Return a text without the thought aloud at its start, and that thought.

    A thought that does not end is all there is: the reply was cut off before an answer.

    >>> split_thought("<think>7 + 9</think>\n16")
    ('16', '7 + 9')
    >>> split_thought("<think>7 + 9 is")
    ('', '7 + 9 is')
    >>> split_thought("16")
    ('16', None)
    """
    began = _THINK.match(text)
    if began is None:
        return text, None
    tag = began["tag"].lower()
    end = re.compile(rf"</{tag}>", re.IGNORECASE).search(text, began.end())
    if end is None:
        return "", text[began.end() :].strip()
    return text[end.end() :].lstrip(), text[began.end() : end.start()].strip()


def read_confidence(text: str) -> tuple[str, float | None]:
    r"""Return the text without its line of confidence, and the probability that it states.

    >>> read_confidence("ANSWER: 4\nCONFIDENCE: 80%")
    ('ANSWER: 4', 0.8)
    """
    match = find_last(_CONFIDENCE, text)
    if match is None:
        return text, None
    number = float(match.group.rstrip("%").replace(",", "."))
    if match.group.endswith("%"):
        number /= 100
    rest = text[: match.start].rstrip() + text[match.end :]
    return rest, number if 0 <= number <= 1 else None


def read_logprobs(tokens: Iterable[Any]) -> tuple[tuple[str, float], ...]:
    """Return the tokens with their log probabilities, as OpenAI lists them; none if one is odd."""
    try:
        pairs = [(entry["token"], entry["logprob"]) for entry in tokens]
    except (KeyError, TypeError):
        return ()
    numbers = all(isinstance(p, int | float) and not isinstance(p, bool) for _, p in pairs)
    if not (numbers and all(isinstance(token, str) for token, _ in pairs)):
        return ()
    try:
        return tuple((token, float(number)) for token, number in pairs)
    except OverflowError:
        return ()


def average_confidence(answer: str | None, tokens: Sequence[tuple[str, float]]) -> float | None:
    """Return the geometric mean probability of the answer's tokens; of all if it is not found.

    None where there are no tokens, or what is given of one is no log probability.

    >>> round(average_confidence("16", [("So ", -2.0), ("1", -0.1), ("6", -0.3)]), 4)
    0.8187
    """
    if not tokens or answer is None:
        return None
    text = "".join(token for token, _ in tokens)
    start = text.rfind(answer)
    end = start + len(answer)
    if start < 0:
        start, end = 0, len(text)
    at, logprobs = 0, []
    for token, logprob in tokens:
        if at < end and at + len(token) > start:
            logprobs.append(logprob)
        at += len(token)
    if not logprobs or not all(
        logprob_ <= _ROUNDING for logprob_ in logprobs
    ):  # of NaN, that is not so
        return None
    mean = math.fsum(max(logprob_, _IMPOSSIBLE) for logprob_ in logprobs) / len(logprobs)
    return min(1.0, math.exp(mean))
