"""Metrics by name: the catalogue walks the folders of the families and refuses duplicate names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import chain
from math import inf
from pkgutil import iter_modules

import calipers.metrics as families
from calipers.metrics import PROFILES
from calipers.metrics.calibration.confidence import declare_brier, declare_ece
from calipers.metrics.calibration.discrimination import declare_auroc
from calipers.metrics.calibration.stated import Stated
from calipers.metrics.declare.declaration import DOCUMENTS, SECTION, Metric
from calipers.metrics.own.statistics import parse_metric
from calipers.metrics.scenarios.pass_at_k import declare_pass
from calipers.support.errors import UsageError, nearest
from calipers.support.registry import Registry, add_registry

OF_CONFIDENCE = {"brier": declare_brier, "ece": declare_ece, "auroc": declare_auroc}
_TRIES = re.compile(r"pass_(at|hat)_([1-9][0-9]{0,2})")


class _Metrics(Registry[Metric]):
    """The metrics that users add; none may take a name of the library's own."""

    def add(self, name: str, thing: Metric, origin: str, *, replace: bool = False) -> None:
        """Add a metric, or raise UsageError where its name is taken."""
        if name in _find_declared() or _TRIES.fullmatch(name) or _find_named(name):
            raise UsageError(
                f"calipers has a metric {name} of its own; this one comes from {origin}",
                fix="give it another name",
            )
        super().add(name, thing, origin, replace=replace)


_WITHOUT = ("checks", "declare")  # these folders declare no metric, and are slow to load
_DECLARES = re.compile(rf"{families.__name__}\.(?!{'|'.join(_WITHOUT)})\w+\.\w+$")

METRICS = _Metrics("metric")
add_registry(Metric, METRICS)


def catalogue() -> dict[str, Metric]:
    """Return all metrics by name: those of the documents in order, then those added."""
    return {**_find_declared(), **METRICS.read_all()}


@cache
def _find_declared() -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for module in sorted(_list_modules(), key=lambda name: name.rpartition(".")[2]):
        named = vars(import_module(module)).values()
        for value in chain.from_iterable(e if isinstance(e, tuple) else (e,) for e in named):
            if isinstance(value, Metric) and found.setdefault(value.name, value) is not value:
                raise ValueError(f"two metrics are called {value.name}")
    return dict(sorted(found.items(), key=lambda item: _place(item[1])))


def _list_modules() -> Iterator[str]:
    """Yield the modules that may declare metrics: those directly in a family's folder."""
    for family in iter_modules(families.__path__, prefix=f"{families.__name__}."):
        if family.name.rpartition(".")[2] in _WITHOUT:
            continue
        folder = import_module(family.name).__path__ if family.ispkg else ()
        for module in iter_modules(folder, prefix=f"{family.name}."):
            if not module.ispkg:
                yield module.name


def _place(metric: Metric, document: str | None = None) -> tuple[float, list[float]]:
    """Return a metric's place in its document, or in this one; without one, after its family."""
    places = [place for place in (metric.spec or "").split(", ") if SECTION.match(place)]
    if not places:
        family = PROFILES.index(metric.profiles[0]) if metric.profiles else len(PROFILES)
        return family, [inf]
    own = (place for place in places if document and place.startswith(document))
    letter, _, section = next(own, places[0]).partition(" ")
    return DOCUMENTS.index(letter), [float(number) for number in section.split(".") if number]


def metric_named(name: str) -> Metric:
    """Return the metric of that name; raise UsageError with the nearest name otherwise.

    `mean(FIELD)`, `p50(FIELD)`, `p95(FIELD)`, `p99(FIELD)` and `sum(FIELD)` name one of any field;
    `brier(NAME)`, `ece(NAME)` and `auroc(NAME)` one of a stated confidence that has a name.
    """
    if (loaded := _find_loaded(name)) is not None:
        return loaded
    metrics = catalogue()
    if name in metrics:
        return metrics[name]
    if tries := _TRIES.fullmatch(name):
        return declare_pass(tries[1], int(tries[2]))
    if (named := _find_named(name)) is not None:
        return named
    if (own := parse_metric(name)) is not None:
        return own
    raise UsageError(f"no metric is called {name}", fix=nearest(name, metrics))


@cache
def _find_loaded(name: str) -> Metric | None:
    """Return the library's own metric of that name if its module is loaded: others take a while."""
    for module, loaded in [*sys.modules.items()]:
        if _DECLARES.match(module):
            for value in [*vars(loaded).values()]:  # it may still be loading
                if isinstance(value, Metric) and value.name == name:
                    return value
    return None


def _find_named(name: str) -> Metric | None:
    """Return the metric of a stated confidence that has a name, `brier(p_true)` say."""
    kind, _, of = name.removesuffix(")").partition("(")
    of = of.strip()
    if kind not in OF_CONFIDENCE or not name.endswith(")") or not (of and of.isprintable()):
        return None
    return OF_CONFIDENCE[kind](Stated(of))


def metrics_of(profile: str | None) -> list[Metric]:
    """Return the metrics of a profile, in the order of its document; all without a profile."""
    if profile is None:
        return list(catalogue().values())
    if profile not in PROFILES:
        raise UsageError(f"no profile is called {profile}", fix=nearest(profile, PROFILES))
    document = DOCUMENTS[PROFILES.index(profile)]
    chosen = (metric for metric in catalogue().values() if profile in metric.profiles)
    return sorted(chosen, key=lambda metric: _place(metric, document))
