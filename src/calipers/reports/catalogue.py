"""The catalogue of metrics, from their declarations alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calipers.metrics import Metric


def facts(metric: Metric) -> dict[str, str]:
    """All that is declared of a metric, in words."""
    return {
        "formula": metric.formula,
        "needs": "; ".join(map(str, metric.needs)) or "what its function reads",
        "nulls": metric.nulls,
        "unit": metric.unit or "none",
        "range": range_text(metric),
        "better": metric.better or "neither",
        "interval": metric.interval.name,
        "profiles": ", ".join(metric.profiles) or "none",
        "spec": metric.defined_in,
        "version": str(metric.version),
    }


def range_text(metric: Metric) -> str:
    """The range as [0, 1] or [0, ∞)."""
    low, high = metric.range
    start = "(−∞" if low == float("-inf") else f"[{low:g}"
    return f"{start}, ∞)" if high == float("inf") else f"{start}, {high:g}]"


def as_json(metrics: Sequence[Metric]) -> str:
    """A list for programs."""
    rows = [{"name": metric.name, "says": metric.says, **facts(metric)} for metric in metrics]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def as_markdown(metrics: Sequence[Metric]) -> str:
    """The reference page of the documentation."""
    lines = ["# Metrics", "", "Written by `calipers metrics --format markdown`.", ""]
    for metric in metrics:
        lines += [f"## {metric.name}", "", metric.says, "", "| | |", "|---|---|"]
        lines += [f"| {label} | {_cell(text)} |" for label, text in facts(metric).items()]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")
