"""Every metric, declared once, in a folder per family.

`mean`, `quantile` and `sum` declare a metric of your own; `calipers.register` adds it. Names are
loaded when they are first used: the command line reads the options of metrics, and no more.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calipers.metrics.declare.declaration import Metric
    from calipers.metrics.lookup import METRICS, catalogue, metric_named, metrics_of
    from calipers.metrics.own.statistics import mean, quantile
    from calipers.metrics.own.statistics import total as sum  # noqa: A004 (as in a spreadsheet)

__all__ = [
    "METRICS",
    "PROFILES",
    "Metric",
    "catalogue",
    "mean",
    "metric_named",
    "metrics_of",
    "quantile",
    "sum",
]

PROFILES = ("reasoning", "tiers", "scenarios", "agents")
_HOMES = {
    "Metric": ("declare.declaration", "Metric"),
    **{name: ("lookup", name) for name in ("METRICS", "catalogue", "metric_named", "metrics_of")},
    **{name: ("own.statistics", name) for name in ("mean", "quantile")},
    "sum": ("own.statistics", "total"),
}


def __getattr__(name: str) -> Any:
    """Return what loads Polars only once it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module(f"{__name__}.lookup")  # makes the registry known
    module, own_name = _HOMES[name]
    return getattr(import_module(f"{__name__}.{module}"), own_name)
