"""A recorded run: its metrics, the values of its tasks, and the outcome of its scenarios."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from calipers.gates.policy_fields import find_metric
from calipers.gates.result import LISTED, Changes, Ids
from calipers.metrics.declare.declaration import Feature, Metric
from calipers.statistics.clusters import Floats
from calipers.support.errors import UsageError, nearest
from calipers.support.files import write_whole
from calipers.support.lazy_numpy import np
from calipers.support.strict_json import dump_strict
from calipers.support.version import __version__

SCHEMA = "calipers.baseline/2"
OLD_SCHEMA = "calipers.baseline/1"
_OUTCOMES = ("passed", "failed", "unknown")
LARGEST = 1e150  # squares of larger values are beyond a double
_ROUNDING = 1e-9  # by which a sum may pass the end of its range
_FIX = "record it again: calipers gate … --save-baseline FILE"
RECORD_FIRST = "record one first: calipers gate … --save-baseline FILE"

T = TypeVar("T")
HasGained: TypeAlias = "Callable[[str, RecordedGroup, RecordedGroup], bool]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureByTask:
    """A feature in each task that has it: mean, number of runs, their squares around the mean."""

    ids: tuple[str, ...]
    runs: Floats
    means: Floats
    squares: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGroup:
    """The metrics of a group, the values of its tasks, and which scenarios passed."""

    by: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float]
    stderrs: Mapping[str, float] = field(default_factory=dict)
    tasks: Mapping[str, FeatureByTask] = field(default_factory=dict)  # by feature
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Return the ids of all of them."""
        return (*self.passed, *self.failed, *self.unknown)

    def to_dict(self) -> dict[str, Any]:
        """Return it as the file has it."""
        return {
            "by": dict(self.by),
            "metrics": dict(self.metrics),
            "stderrs": dict(self.stderrs),
            "tasks": dump_tasks(self.tasks),
            "scenarios": {name: list(getattr(self, name)) for name in _OUTCOMES},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A baseline: the groups of a run, and what it was made of."""

    groups: tuple[RecordedGroup, ...]
    origin: Mapping[str, str] = field(default_factory=dict)  # commit, policy, suite, build

    def group(self, by: Mapping[str, Any]) -> RecordedGroup | None:
        """Return the group of that key."""
        return next((group for group in self.groups if dict(group.by) == dict(by)), None)

    def to_dict(self) -> dict[str, Any]:
        """Return it as the file has it."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            **({"origin": dict(self.origin)} if self.origin else {}),
            "groups": [group.to_dict() for group in self.groups],
        }


def read_baseline(path: Path) -> Recorded:
    """Return the recorded run; raise UsageError if the file does not hold one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", fix=RECORD_FIRST) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as JSON", fix=RECORD_FIRST) from error
    try:
        if value["schema"] == SCHEMA:
            groups = tuple(map(_read_group, value["groups"]))
            return Recorded(groups=groups, origin=_read_origin(value.get("origin")))
        problem = f"its schema is not {SCHEMA}"
        if value["schema"] == OLD_SCHEMA:
            problem = (
                "recorded by calipers 0.1, which kept no values of tasks: how far they vary is "
                "unknown"
            )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        problem = "not a baseline file that `calipers gate` has written"
        raise UsageError(f"{path}: {problem}", fix=_FIX) from error
    except (ValueError, UsageError) as error:
        problem = error.message if isinstance(error, UsageError) else str(error)
        raise UsageError(f"{path}: {problem}", fix=_FIX) from error
    raise UsageError(f"{path}: {problem}", fix=_FIX)


def write_baseline(path: Path, recorded: Recorded) -> None:
    """Write a recorded run, whole or not at all; raise UsageError if values are infinite."""
    try:
        text = dump_strict(recorded.to_dict())
    except (ValueError, OverflowError) as error:
        problem = f"{path}: not written: a value of the run is too large to be compared with"
        raise UsageError(problem, fix="fix the record; calipers doctor names odd values") from error
    write_whole(path, f"{text}\n")


def _read_origin(written: Any) -> dict[str, str]:
    """Return what a baseline was made of; empty in files of before, which do not say it."""
    known = written.items() if isinstance(written, dict) else ()
    return {str(key): value for key, value in known if isinstance(value, str)}


def _read_group(group: Mapping[str, Any]) -> RecordedGroup:
    scenarios = group["scenarios"]
    metrics = {find_metric(name): value for name, value in group["metrics"].items()}
    tasks = load_tasks(group["tasks"])
    for metric in metrics:
        averaged = metric.averaged
        of_tasks = tasks.get(averaged.name if isinstance(averaged, Feature) else averaged or "")
        for mean in () if of_tasks is None else of_tasks.means:
            _check_range(metric, mean)
    return RecordedGroup(
        by=dict(group["by"]),
        metrics={
            metric.name: _check_range(metric, _check_finite(metric.name, value))
            for metric, value in metrics.items()
        },
        stderrs={name: _check_finite(name, value) for name, value in group["stderrs"].items()},
        tasks=tasks,
        **{name: tuple(map(str, scenarios[name])) for name in _OUTCOMES},
    )


def _check_finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ValueError(f"{name} is {str(value)[:30]}, no number up to {LARGEST:g}")
    return float(value)


def _check_range(metric: Metric, value: float) -> float:
    low, high = metric.range
    if not low - _ROUNDING <= value <= high + _ROUNDING:
        raise ValueError(f"{metric.name} is {value:g}, outside {low:g} to {high:g}")
    return value


def list_tolerances(group: RecordedGroup, margins: Mapping[str, float]) -> dict[str, float]:
    """Return how much worse each metric may be: by its margin, or by 0 if none has a margin."""
    for name in margins:
        if name not in group.metrics:
            raise UsageError(
                f"the baseline has no {name}", fix=f"{nearest(name, group.metrics)}; or {_FIX}"
            )
    return dict(margins) or {name: 0.0 for name in group.metrics if find_metric(name).better}


def ratchet(
    old: Recorded, new: Recorded, has_gained: HasGained
) -> tuple[Recorded, tuple[str, ...]]:
    """Return the baseline raised by the run's gains, never lowered, and what rose."""
    groups: list[RecordedGroup] = []
    raised: list[str] = []
    for group in new.groups:
        before = old.group(group.by)
        if before is None:
            groups.append(group)
            continue
        rose = [name for name in before.metrics if has_gained(name, before, group)]
        raised += (name for name in rose if name not in raised)
        features = {find_feature(name) for name in rose}
        groups.append(
            replace(
                group,
                metrics=_keep_best(before.metrics, group.metrics, rose),
                stderrs=_keep_best(before.stderrs, group.stderrs, rose),
                tasks=_keep_best(before.tasks, group.tasks, features),
            )
        )
    missing = [group for group in old.groups if new.group(group.by) is None]
    return Recorded(groups=(*groups, *missing), origin=new.origin), tuple(raised)


def find_feature(metric: str) -> str | None:
    """Return the feature that a metric is the mean of, if it is one over rows."""
    averaged = find_metric(metric).averaged
    return averaged.name if isinstance(averaged, Feature) else None


def _keep_best(
    before: Mapping[str, T], now: Mapping[str, T], rose: Container[str | None]
) -> dict[str, T]:
    """Return what was recorded, with the run's own where that rose or nothing was recorded."""
    kept = {name: old for name, old in before.items() if name not in rose or name not in now}
    return {**now, **kept}


def compare_scenarios(before: RecordedGroup, now: RecordedGroup) -> Changes:
    """Return the scenarios added, removed, broken or fixed since the baseline."""
    passed, failed = set(before.passed), set(before.failed)
    known, present = set(before.scenarios), set(now.scenarios)
    return Changes(
        by=now.by,
        added=_make_ids(present - known),
        removed=_make_ids(known - present),
        broken=_make_ids(scenario for scenario in now.failed if scenario in passed),
        mended=_make_ids(scenario for scenario in now.passed if scenario in failed),
    )


def _make_ids(ids: Iterable[str]) -> Ids:
    every = sorted(ids)
    return Ids(len(every), tuple(every[:LISTED]))


def dump_tasks(tasks: Mapping[str, FeatureByTask]) -> dict[str, Any]:
    """Return one list of ids, and for each feature numbers in that order.

    `runs` is one number where all tasks have as many, and 0 for a task without a value; `squares`
    are left out where no task has two runs that differ.
    """
    ids = sorted({id_ for values in tasks.values() for id_ in values.ids})
    place = {id_: at for at, id_ in enumerate(ids)}
    return {
        "ids": ids,
        "values": {
            name: _dump_feature(values, [place[id_] for id_ in values.ids], len(ids))
            for name, values in sorted(tasks.items())
        },
    }


def _dump_feature(values: FeatureByTask, at: Sequence[int], size: int) -> dict[str, Any]:
    def spread(numbers: Floats) -> list[float | int]:
        whole = np.zeros(size)
        whole[list(at)] = numbers
        return [int(number) if number.is_integer() else number for number in whole.tolist()]

    runs = spread(values.runs)
    alike = len(set(runs)) == 1
    return {
        "runs": runs[0] if alike else runs,
        "means": spread(values.means),
        **({"squares": spread(values.squares)} if values.squares.any() else {}),
    }


def load_tasks(stored: Mapping[str, Any]) -> dict[str, FeatureByTask]:
    """Return what `dump_tasks` wrote; raise ValueError for anything else."""
    ids = [str(id_) for id_ in stored["ids"]]
    return {
        str(name): _load_feature(str(name), stored_values, ids)
        for name, stored_values in stored["values"].items()
    }


def _load_feature(name: str, stored: Mapping[str, Any], ids: Sequence[str]) -> FeatureByTask:
    def read_numbers(key: str, value: Any) -> Floats:
        array = np.array([value] * len(ids) if isinstance(value, int) else value, dtype=np.float64)
        if (
            array.shape != (len(ids),)
            or not (np.abs(array) <= LARGEST).all()
            or (key != "means" and (array < 0).any())
        ):
            raise ValueError(
                f"the {key} of {name} are no {len(ids)} finite numbers up to {LARGEST:g}"
            )
        return array

    runs, means = read_numbers("runs", stored["runs"]), read_numbers("means", stored["means"])
    squares = read_numbers("squares", stored.get("squares", 0))
    has = runs > 0
    return FeatureByTask(
        ids=tuple(id_ for id_, kept in zip(ids, has, strict=True) if kept),
        runs=runs[has],
        means=means[has],
        squares=squares[has],
    )
