"""Metrics by name: the catalogue walks the files of the families and refuses duplicate names."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import import_module
from itertools import chain
from math import inf
from pkgutil import iter_modules

from calipers.metrics import PROFILES, families
from calipers.metrics.declare.declaration import DOCUMENTS, SECTION, Metric
from calipers.metrics.families.calibration import (
    StatedConfidence,
    declare_auroc,
    declare_brier,
    declare_ece,
)
from calipers.metrics.families.judged import find_criterion
from calipers.metrics.families.repeated_runs import declare_pass
from calipers.metrics.families.retrieval import declare_retrieval
from calipers.metrics.user_defined import parse_metric
from calipers.support.errors import UsageError, nearest
from calipers.support.plugins import Registry, add_registry

OF_CONFIDENCE = {"brier": declare_brier, "ece": declare_ece, "auroc": declare_auroc}
_TRIES = re.compile(r"pass_(at|hat)_([1-9][0-9]{0,2})")
_FIRST_K = re.compile(r"retrieval_(precision|recall|ndcg)_at_([1-9][0-9]{0,3})")


class _Metrics(Registry[Metric]):
    """The metrics that users add; none may take a name of the library's own."""

    def add(self, name: str, thing: Metric, origin: str, *, replace: bool = False) -> None:
        """Add a metric, or raise UsageError where its name is taken."""
        if name in _find_declared() or _find_at_k(name) or _find_named(name):
            raise UsageError(
                f"calipers has a metric {name} of its own; this one comes from {origin}",
                fix="give it another name",
            )
        super().add(name, thing, origin, replace=replace)


_DECLARES = re.compile(rf"{families.__name__}\.\w+$")

METRICS = _Metrics("metric")
SHOWN: dict[str, Metric] = {}
"""Metrics of stored scores whose code is not here: they have a name and a unit, and are in no
catalogue, so that no other run is measured by them."""
add_registry(Metric, METRICS)


def catalogue() -> dict[str, Metric]:
    """Return all metrics by name: those of the documents in order, then those added."""
    return {**_find_declared(), **METRICS.read_all()}


@cache
def _find_declared() -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for module in iter_modules(families.__path__, prefix=f"{families.__name__}."):
        named = vars(import_module(module.name)).values()
        for value in chain.from_iterable(e if isinstance(e, tuple) else (e,) for e in named):
            if isinstance(value, Metric) and found.setdefault(value.name, value) is not value:
                raise ValueError(f"two metrics are called {value.name}")
    return dict(sorted(found.items(), key=lambda item: _place(item[1])))


def _place(metric: Metric, document: str | None = None) -> tuple[float, list[float]]:
    """Return a metric's place in its document, or in this one; without one, after its family."""
    places = [place for place in (metric.spec or "").split(", ") if SECTION.match(place)]
    if not places:
        homes = [PROFILES.index(name) for name in metric.profiles if name in PROFILES]
        return (*homes, len(PROFILES))[0], [inf]
    own = (place for place in places if document and place.startswith(document))
    letter, _, section = next(own, places[0]).partition(" ")
    return DOCUMENTS.index(letter), [float(number) for number in section.split(".") if number]


def metric_named(name: str) -> Metric:
    """Return the metric of that name; raise UsageError with the nearest name otherwise.

    `mean(FIELD)`, `p50(FIELD)`, `p95(FIELD)`, `p99(FIELD)` and `sum(FIELD)` name one of any field;
    `brier(NAME)`, `ece(NAME)` and `auroc(NAME)` one of a stated confidence that has a name, and
    `judged(NAME)` one of a criterion of judges.
    """
    if (loaded := _find_loaded(name)) is not None:
        return loaded
    metrics = catalogue()
    if name in metrics:
        return metrics[name]
    declared = _find_at_k(name) or _find_named(name) or parse_metric(name)
    if declared is not None:
        return declared
    if name in SHOWN:
        return SHOWN[name]
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


def _find_at_k(name: str) -> Metric | None:
    """Return the metric of a number of runs, or of passages, that is in its name."""
    if tries := _TRIES.fullmatch(name):
        return declare_pass(tries[1], int(tries[2]))
    if first := _FIRST_K.fullmatch(name):
        return declare_retrieval(first[1], int(first[2]))
    return None


def _find_named(name: str) -> Metric | None:
    """Return the metric of a stated confidence, or of judges, that has a name: `brier(p_true)`."""
    if (criterion := find_criterion(name)) is not None:
        return criterion
    kind, _, of = name.removesuffix(")").partition("(")
    of = of.strip()
    if kind not in OF_CONFIDENCE or not name.endswith(")") or not (of and of.isprintable()):
        return None
    return OF_CONFIDENCE[kind](StatedConfidence(of))


def metrics_of(profile: str | None) -> list[Metric]:
    """Return the metrics of a profile, in the order of its document; all without a profile.

    A profile is one of the four documents', or any that metrics declare as theirs.
    """
    metrics = list(catalogue().values())
    if profile is None:
        return metrics
    chosen = [metric for metric in metrics if profile in metric.profiles]
    if not chosen:
        known = dict.fromkeys((*PROFILES, *(name for m in metrics for name in m.profiles)))
        raise UsageError(f"no profile is called {profile}", fix=nearest(profile, known))
    if profile not in PROFILES:
        return chosen
    document = DOCUMENTS[PROFILES.index(profile)]
    return sorted(chosen, key=lambda metric: _place(metric, document))
