"""A trace as a timeline: who did what, when and for how long, as far as the trace says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any

from calipers.support.quick_dataclasses import dataclass

MOST = 400  # steps that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a tool; `start` and `width` are its place from 0 to 100."""

    number: int
    tool: str
    agent: str | None
    context: str | None
    success: bool | None
    seconds: float | None
    start: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The calls of a trace in order."""

    steps: tuple[Step, ...]
    total: int
    seconds: float | None  # from the first to the end of the last; None where no times are known
    by_time: bool  # or by order alone


def make_timeline(trace: Any) -> Timeline | None:
    """Return the timeline of a trace, an object or its JSON; None if no tool was called."""
    calls = _list_calls(trace)
    if not calls:
        return None
    shown = calls[:MOST]
    starts, seconds = _read_times(shown)
    end = max(at + (took or 0.0) for at, took in zip(starts, seconds, strict=True))
    by_time = end > 0
    places = [at / end if by_time else n / len(shown) for n, at in enumerate(starts)]
    widths = [(took or 0.0) / end if by_time else 1 / len(shown) for took in seconds]
    steps = tuple(
        Step(
            number=number,
            tool=str(call.get("tool_name")),
            agent=_as_text(call.get("agent_id")),
            context=_as_text(call.get("context")),
            success=call["success"] if isinstance(call.get("success"), bool) else None,
            seconds=took,
            start=round(100 * place, 2),
            width=round(max(0.4, 100 * width), 2),
        )
        for number, (call, took, place, width) in enumerate(
            zip(shown, seconds, places, widths, strict=True), start=1
        )
    )
    return Timeline(
        steps=steps, total=len(calls), seconds=end if by_time else None, by_time=by_time
    )


def _list_calls(trace: Any) -> list[Mapping[str, Any]]:
    try:
        found = json.loads(trace) if isinstance(trace, str) else trace
    except (ValueError, RecursionError):
        return []
    calls = found.get("tool_calls") if isinstance(found, Mapping) else None
    return [call for call in calls or () if isinstance(call, Mapping)]


def _read_times(calls: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float | None]]:
    """Return when each call began, from 0, and its duration; in sequence without time stamps."""
    seconds = [_read_seconds(call.get("duration")) for call in calls]
    stamps = [_read_stamp(call.get("timestamp")) for call in calls]
    if all(stamp is not None for stamp in stamps):
        first = min(stamp for stamp in stamps if stamp is not None)
        return [stamp - first for stamp in stamps if stamp is not None], seconds
    starts, at = [], 0.0
    for took in seconds:
        starts.append(at)
        at += took or 0.0
    return starts, seconds


def _read_seconds(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and isfinite(value) and value >= 0 else None


def _read_stamp(value: Any) -> float | None:
    """Return seconds since an epoch, from a number or an ISO text."""
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def _as_text(value: Any) -> str | None:
    return None if value is None else str(value)
