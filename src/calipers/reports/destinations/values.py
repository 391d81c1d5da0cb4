"""The numbers of a group as experiment trackers keep them: a flat list of names and values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calipers.reports.figures import group_name
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.scores.results import Group, Score

_PARTS = ("value", "low", "high", "stderr")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def list_values(group: Group) -> dict[str, float]:
    """Return `accuracy`, `accuracy.low`, `accuracy.high`, … as far as they have a value."""
    found: dict[str, float] = {"records": group.records, "errors": group.errors}
    for name, measured in group.metrics.items():
        for part in _PARTS:
            if (value := getattr(measured, part)) is not None:
                key = clean_name(name)
                found[key if part == "value" else f"{key}.{part}"] = float(value)
        found[f"{clean_name(name)}.n"] = measured.n
    return found


def clean_name(name: str) -> str:
    """Return a name that every tracker takes: `mean(score)` becomes `mean_score`."""
    return _NOT_A_NAME.sub("_", name).strip("_") or "unnamed"


def name_run(group: Group) -> str:
    """Return what a run of a tracker is called: the values that the group shares."""
    return group_name(group.by) if group.by else "all records"


def describe_score(score: Score) -> dict[str, Any]:
    """Return the version, seed, inputs and settings behind the numbers."""
    return {
        "calipers.version": __version__,
        "calipers.seed": str(score.seed),
        "calipers.inputs": ", ".join(each.path for each in score.inputs),
    }


def describe_group(by: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields a group is made by, as texts."""
    return {clean_name(name): "null" if value is None else str(value) for name, value in by.items()}


def make_page(score: Score) -> str | None:
    """Return the report page of a score alone; None where what draws it is not installed."""
    from calipers.runs.report_data import Report, require_report  # noqa: PLC0415
    from calipers.support.errors import MissingExtraError  # noqa: PLC0415

    try:
        require_report("a report")
    except MissingExtraError:
        return None
    title = ", ".join(each.path for each in score.inputs) or "score"
    return Report(title=title, facts={}, score=score, notices=score.notices).to_html()
