"""Every metric, declared once: the catalogue walks these folders and refuses a name twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from calipers.metrics.declare.declaration import Metric
from calipers.metrics.scenarios.pass_at_k import pass_metric
from calipers.support.errors import UsageError, nearest

__all__ = ["PROFILES", "Metric", "catalogue", "metric_named", "metrics_of"]

PROFILES = ("reasoning", "tiers", "scenarios", "agents")
_DOCUMENTS = "ZTSP"  # of the profiles, in their order
_TRIES = re.compile(r"pass_(at|hat)_([1-9][0-9]{0,2})")


@cache
def catalogue() -> dict[str, Metric]:
    """All metrics by name, in the order of the documents."""
    found: dict[str, Metric] = {}
    for module in sorted(_modules(), key=lambda name: name.rpartition(".")[2]):
        for value in _declared(vars(import_module(module)).values()):
            if isinstance(value, Metric) and found.setdefault(value.name, value) is not value:
                raise ValueError(f"two metrics are called {value.name}")
    return dict(sorted(found.items(), key=lambda item: _place(item[1])))


def _modules() -> Iterator[str]:
    """Name the modules that may declare metrics: those that stand directly in a family's folder."""
    for family in iter_modules(__path__, prefix=f"{__name__}."):
        if family.name == f"{__name__}.checks":  # declares none, and loads pydantic
            continue
        folder = import_module(family.name).__path__ if family.ispkg else ()
        for module in iter_modules(folder, prefix=f"{family.name}."):
            if not module.ispkg:
                yield module.name


def _declared(values: Iterable[object]) -> Iterator[object]:
    """What a module names, one by one or several at once."""
    for value in values:
        yield from value if isinstance(value, tuple) else (value,)


def _place(metric: Metric, document: str | None = None) -> tuple[int, list[int]]:
    """Where a metric stands in the documents, or in that one if it is there."""
    places = metric.spec.split(", ")
    own = (place for place in places if document and place.startswith(document))
    letter, _, section = next(own, places[0]).partition(" ")
    return _DOCUMENTS.index(letter), [int(number) for number in section.split(".") if number]


def metric_named(name: str) -> Metric:
    """The metric of that name, or an error that names the nearest."""
    metrics = catalogue()
    if name not in metrics and (tries := _TRIES.fullmatch(name)):
        return pass_metric(tries[1], int(tries[2]))
    if name not in metrics:
        raise UsageError(f"no metric is called {name}", fix=nearest(name, metrics))
    return metrics[name]


def metrics_of(profile: str | None) -> list[Metric]:
    """The metrics of a profile, in the order of its document; of all of them without one."""
    if profile is None:
        return list(catalogue().values())
    if profile not in PROFILES:
        raise UsageError(f"no profile is called {profile}", fix=nearest(profile, PROFILES))
    document = _DOCUMENTS[PROFILES.index(profile)]
    chosen = (metric for metric in catalogue().values() if profile in metric.profiles)
    return sorted(chosen, key=lambda metric: _place(metric, document))
