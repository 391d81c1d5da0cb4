"""What a notebook may write for short, and what it means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def names(fields: str | Sequence[str]) -> tuple[str, ...]:
    """One name, or several."""
    return (fields,) if isinstance(fields, str) else tuple(fields)


def path_of(path: str | Path | None) -> Path | None:
    """A path, however it was written."""
    return None if path is None else Path(path)


def no_progress(share: float) -> None:
    """Nobody is looking."""
    del share
