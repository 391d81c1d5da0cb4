"""The summary page of a step on GitHub: Markdown, at most 1 MiB of it."""

from __future__ import annotations

from pathlib import Path

LIMIT = 1 << 20
_CUT = "\n\n… cut here: a step's summary holds at most 1 MiB\n"


def append_summary(path: Path, text: str) -> None:
    """Add to the step's summary as much as there is room for, whole lines, with a mark if cut."""
    room = LIMIT - (path.stat().st_size if path.exists() else 0)
    content = text.encode()
    if len(content) > room:
        mark = _CUT.encode()
        if len(mark) > room:
            return
        kept = content[: room - len(mark)]
        content = kept[: kept.rfind(b"\n") + 1].rstrip(b"\n") + mark
    with path.open("ab") as file:
        file.write(content)
