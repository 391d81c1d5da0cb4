"""The values of a run's tasks, as a baseline keeps them: compact, and checked when read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calipers.statistics.arrays import Floats
from calipers.support.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureByTask:
    """A feature in each task that has it: mean, number of runs, their squares around the mean."""

    ids: tuple[str, ...]
    runs: Floats
    means: Floats
    squares: Floats


def dump_tasks(tasks: Mapping[str, FeatureByTask]) -> dict[str, Any]:
    """Return one list of ids, and for each feature numbers in that order.

    `runs` is one number where all tasks have as many, and 0 for a task without a value; `squares`
    are left out where no task has two runs that differ.
    """
    ids = sorted({each for values in tasks.values() for each in values.ids})
    place = {each: at for at, each in enumerate(ids)}
    return {
        "ids": ids,
        "values": {
            name: _dump_feature(values, [place[each] for each in values.ids], len(ids))
            for name, values in sorted(tasks.items())
        },
    }


def _dump_feature(values: FeatureByTask, at: Sequence[int], size: int) -> dict[str, Any]:
    def spread(numbers: Floats) -> list[float | int]:
        whole = np.zeros(size)
        whole[list(at)] = numbers
        return [int(each) if each.is_integer() else each for each in whole.tolist()]

    runs = spread(values.runs)
    alike = len(set(runs)) == 1
    return {
        "runs": runs[0] if alike else runs,
        "means": spread(values.means),
        **({"squares": spread(values.squares)} if values.squares.any() else {}),
    }


def load_tasks(found: Mapping[str, Any]) -> dict[str, FeatureByTask]:
    """Return what `dump_tasks` wrote; raise ValueError for anything else."""
    ids = [str(each) for each in found["ids"]]
    return {
        str(name): _load_feature(str(name), each, ids) for name, each in found["values"].items()
    }


def _load_feature(name: str, found: Mapping[str, Any], ids: Sequence[str]) -> FeatureByTask:
    def read_numbers(key: str, value: Any) -> Floats:
        array = np.array([value] * len(ids) if isinstance(value, int) else value, dtype=np.float64)
        if (
            array.shape != (len(ids),)
            or not np.isfinite(array).all()
            or (key != "means" and (array < 0).any())
        ):
            raise ValueError(f"the {key} of {name} are no {len(ids)} finite numbers")
        return array

    runs, means = read_numbers("runs", found["runs"]), read_numbers("means", found["means"])
    squares = read_numbers("squares", found.get("squares", 0))
    has = runs > 0
    return FeatureByTask(
        ids=tuple(each for each, kept in zip(ids, has, strict=True) if kept),
        runs=runs[has],
        means=means[has],
        squares=squares[has],
    )
