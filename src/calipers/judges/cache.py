"""Judgements that are kept by what was judged, by which rubric and model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from calipers.judges.answers import Answer, BadAnswer, read_answer
from calipers.judges.rubrics import Rubric
from calipers.support.whole_files import whole

Say = Callable[[str], None]


class Cache:
    """A folder of answers, each read as strictly as one that has just come."""

    def __init__(
        self,
        folder: Path,
        rubric: Rubric,
        of: Mapping[str, Any],
        say: Say,
        *,
        asks_confidence: bool = False,
    ) -> None:
        self._folder = folder
        self._say = say
        self._is_writable = True
        self._rubric = rubric
        self._asks_confidence = asks_confidence
        self._of = {"rubric_hash": rubric.hash, **of}

    def find(self, prompt: str, sample: int) -> Answer | None:
        """The answer that is kept for a sample of a prompt's."""
        with contextlib.suppress(OSError, UnicodeDecodeError, BadAnswer):
            kept = self._path(prompt, sample).read_text(encoding="utf-8")
            return read_answer(kept, self._rubric, asks_confidence=self._asks_confidence)
        return None

    def keep(self, prompt: str, sample: int, answer: Answer) -> None:
        """Keep an answer, all of it or nothing; one that was paid for is never lost to a cache."""
        if not self._is_writable:
            return
        path = self._path(prompt, sample)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole(path, private=True) as beside:
                beside.write_text(answer.to_json(), encoding="utf-8", errors="replace")
        except OSError as error:
            self._is_writable = False
            self._say(f"{self._folder}: {error.strerror}; judgements are not kept in this cache")

    def _path(self, prompt: str, sample: int) -> Path:
        of = [self._of, prompt, *([] if sample == 1 else [sample])]
        asked = json.dumps(of, sort_keys=True, default=str)
        name = sha256(asked.encode()).hexdigest()
        return self._folder / name[:2] / f"{name}.json"
