"""User-defined metrics in a stored score: enough to show them where their code is not loaded.

The content of a result folder is data: no code that it names is run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from math import isfinite
from typing import Any

from calipers.metrics import METRICS, Metric, mean, metric_named
from calipers.metrics.declare.declaration import OneOf
from calipers.metrics.lookup import SHOWN
from calipers.support.errors import UsageError

_MOST = 200
_LONGEST = 200
_NEVER = OneOf(())  # a need that no data meet


def describe_own(names: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return what a stored score says of those metrics that users added."""
    own = {**SHOWN, **METRICS.read_all()}
    return {name: _describe(own[name]) for name in names if name in own}


def _describe(metric: Metric) -> dict[str, Any]:
    is_mean = metric.formula == f"mean({metric.needs[0]})" if metric.needs else False
    return {
        **({"field": metric.needs[0]} if is_mean else {}),
        "says": metric.says,
        "formula": metric.formula,
        "unit": metric.unit,
        "range": [end if isfinite(end) else None for end in metric.range],
        "better": metric.better,
    }


def restore_own(found: Any) -> list[str]:
    """Make the metrics that a stored score describes known; return those that cannot be measured.

    A field's mean can be measured again; of anything else only the stored values can be shown.
    """
    entries = found if isinstance(found, Mapping) else {}
    shown: list[str] = []
    for name, facts in list(entries.items())[:_MOST]:
        if not isinstance(facts, Mapping) or (name not in SHOWN and _is_known(name)):
            continue
        with suppress(UsageError, KeyError, TypeError, ValueError):
            metric = _restore(name, facts)
            if "field" in facts:
                METRICS.add(name, metric, "a stored score")
            else:
                SHOWN[name] = metric
                shown.append(name)
    return shown


def _is_known(name: str) -> bool:
    try:
        metric_named(name)
    except UsageError:
        return False
    return True


def _restore(name: str, facts: Mapping[str, Any]) -> Metric:
    low, high = facts["range"]
    metric = mean(
        str(facts.get("field", name)),
        name=name,
        better=facts.get("better"),
        range=(float("-inf") if low is None else low, float("inf") if high is None else high),
        unit=_shorten(facts.get("unit")),
        says=_shorten(facts.get("says")),
    )
    if "field" in facts:
        return metric
    return replace(metric, needs=(_NEVER,), formula=_shorten(facts.get("formula")) or "unknown")


def _shorten(text: Any) -> str | None:
    return text[:_LONGEST] if isinstance(text, str) and text.isprintable() else None
