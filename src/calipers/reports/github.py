"""A verdict on GitHub Actions: an annotation per failed check, and the step's summary.

>>> print(_write("error", "gate: accuracy", "60% is below 90%"))
::error title=gate%3A accuracy::60%25 is below 90%25
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from calipers.reports.figures import strip_controls
from calipers.reports.gate import name_check

if TYPE_CHECKING:
    from calipers.gates.result import Check, GateResult

MOST = 10  # lines of a kind that GitHub shows for a step
LIMIT = 1 << 20  # bytes of a step's summary
_CUT = "\n\n… cut here: a step's summary holds at most 1 MiB\n"


def list_annotations(result: GateResult) -> list[str]:
    """Return a line per check that failed or warns, and per reason why the run is incomplete."""
    lines = [_write("error", "gate: incomplete", why) for why in result.incomplete]
    lines += [_annotate("error", check) for check in result.checks if check.blocks]
    lines = _bound("error", lines)
    warnings = [check for check in result.checks if check.verdict == "warn" and not check.blocks]
    return lines + _bound("warning", [_annotate("warning", check) for check in warnings])


def _annotate(kind: str, check: Check) -> str:
    return _write(kind, f"gate: {name_check(check)}", check.reason or check.verdict)


def _bound(kind: str, lines: list[str]) -> list[str]:
    if len(lines) <= MOST:
        return lines
    more = f"{len(lines) - MOST + 1:,} more checks, listed in the summary"
    return [*lines[: MOST - 1], _write(kind, "gate", more)]


def _write(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_escape(title, ':,')}::{_escape(message)}"


def _escape(text: str, further: str = "") -> str:
    """Return a text that cannot end the line, nor the title: names come from records."""
    text = strip_controls(text.replace("%", "%25"))
    for sign in further:
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


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
