"""A cache of judgments, by what was judged, with which rubric and model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from calipers.judges.answers import BadAnswer, JudgeAnswer, read_answer
from calipers.judges.rubrics import Rubric
from calipers.support.cache import DiskCache, Say, hash_key


class JudgmentCache:
    """Answers in a folder, each parsed as strictly as a new one."""

    def __init__(
        self,
        folder: Path,
        rubric: Rubric,
        of: Mapping[str, Any],
        say: Say,
        *,
        asks_confidence: bool = False,
    ) -> None:
        self._cache = DiskCache(folder, what="judgments", say=say)
        self._read = partial(_read, rubric=rubric, asks_confidence=asks_confidence)
        self._of = {"rubric_hash": rubric.hash, **of}

    def find(self, prompt: str, sample: int) -> JudgeAnswer | None:
        """Return the stored answer to a prompt, by the number of the sample, or None."""
        return self._cache.find(self._make_key(prompt, sample), self._read)

    def keep(self, prompt: str, sample: int, answer: JudgeAnswer) -> None:
        """Keep an answer."""
        self._cache.keep(
            self._make_key(prompt, sample), answer.to_json().encode("utf-8", "replace")
        )

    def _make_key(self, prompt: str, sample: int) -> str:
        return hash_key(self._of, prompt, *([] if sample == 1 else [sample]))


def _read(content: bytes, rubric: Rubric, *, asks_confidence: bool) -> JudgeAnswer:
    try:
        return read_answer(content.decode(), rubric, asks_confidence=asks_confidence)
    except BadAnswer as error:
        raise ValueError("not an answer") from error
