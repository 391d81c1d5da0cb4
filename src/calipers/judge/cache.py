"""Judgements that are kept by what was judged, by which rubric and model."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from calipers.errors import UsageError
from calipers.judge.answers import BadAnswer, read_answer
from calipers.judge.rubrics import Rubric, Score


class Cache:
    """A folder of answers, each read as strictly as one that has just come."""

    def __init__(self, folder: Path, rubric: Rubric, of: Mapping[str, Any]) -> None:
        self._folder = folder
        self._rubric = rubric
        self._of = {"rubric_hash": rubric.hash, **of}

    def find(self, prompt: str) -> tuple[dict[str, Score], str] | None:
        """The scores and the reason that are kept for a prompt."""
        with contextlib.suppress(OSError, UnicodeDecodeError, BadAnswer):
            return read_answer(self._path(prompt).read_text(encoding="utf-8"), self._rubric)
        return None

    def keep(self, prompt: str, scores: Mapping[str, Score], reason: str) -> None:
        """Keep an answer, all of it or nothing."""
        path = self._path(prompt)
        beside = path.with_suffix(f".{os.getpid()}")
        text = json.dumps({"reason": reason, "scores": scores}, ensure_ascii=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(text, encoding="utf-8", errors="replace")
            beside.replace(path)
        except OSError as error:
            raise UsageError(
                f"{self._folder}: {error.strerror}", fix="name another folder for the cache"
            ) from error

    def _path(self, prompt: str) -> Path:
        asked = json.dumps([self._of, prompt], sort_keys=True, default=str)
        name = sha256(asked.encode()).hexdigest()
        return self._folder / name[:2] / f"{name}.json"
