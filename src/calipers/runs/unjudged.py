"""Answers without judgments so far: written down as they come, so that none is lost.

A call's line goes into the journal when it is judged. Until then its answer is in a file beside it.
Should the run end before, these answers go into the journal with judgments that failed, and the
judges, and only they, are asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calipers.judges.spec import JudgeSpec
from calipers.records.judgment_shape import FAILED, add_judgments
from calipers.systems.journal import Journal

_REASON = "not judged: the run ended before"


class Unjudged:
    """The file of answers that wait."""

    def __init__(
        self, path: Path, judges: Sequence[JudgeSpec], rubric_hashes: Sequence[str]
    ) -> None:
        self._path = path
        self._owed = tuple(_make_pending(judges, rubric_hashes))
        self._file: Journal | None = None

    def add(self, record: Mapping[str, Any]) -> None:
        """Write down the answer of a call."""
        self._file = self._file or Journal(self._path)
        self._file.add(record)

    def move_into(self, journal: Journal, is_done: Callable[[Mapping[str, Any]], bool]) -> int:
        """Append the answers that are not done, and remove the file; return how many there were."""
        if self._file is None and not self._path.exists():
            return 0
        self._file = self._file or Journal(self._path)
        moved = 0
        for record in self._file.read_records():
            if not is_done(record):
                journal.add(add_judgments(record, [dict(each) for each in self._owed]))
                moved += 1
        self._file.close()
        self._file = None
        self._path.unlink(missing_ok=True)
        return moved


def _make_pending(
    judges: Sequence[JudgeSpec], rubric_hashes: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a failed judgment for each sample of each judge."""
    return [
        {
            "judge": judge.name,
            "rubric": judge.rubric,
            "rubric_hash": rubric_hash,
            "model": judge.model,
            "scores": None,
            "reason": _REASON,
            "flags": [],
            **({"sample": sample, "samples": judge.samples} if judge.samples > 1 else {}),
            FAILED: True,
        }
        for judge, rubric_hash in zip(judges, rubric_hashes, strict=True)
        for sample in range(1, judge.samples + 1)
    ]


def note_unjudged(count: int) -> Iterator[str]:
    """Yield how many answers still lack a judgment, if any."""
    if count:
        what, them = ("1 answer", "it") if count == 1 else (f"{count:,} answers", "these")
        yield f"judges failed on {what}: run again to have {them} judged, and only judged"
