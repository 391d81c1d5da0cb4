"""Power analysis of a finished run: what it could detect, and what it takes to detect more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import Any, NoReturn

import polars as pl

from calipers.comparisons.options.power import PowerOptions
from calipers.comparisons.sizing import MetricPower, measure_power
from calipers.engines.plan import FAILED
from calipers.metrics import Metric, catalogue, metric_named
from calipers.metrics.declare.declaration import GROUP, RUNS, TASK, Feature
from calipers.records.sources import STDIN, open_sources
from calipers.scores.keys import sort_keys
from calipers.scores.options import Options
from calipers.scores.score import check_fields
from calipers.scores.tasks import (
    TELL_SYSTEMS_APART,
    VALUE,
    TaskRows,
    measure_tasks,
    note_pooled,
    read_tasks,
)
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS, DataError, UsageError
from calipers.support.printing import Printed
from calipers.support.quick_dataclasses import dataclass
from calipers.support.strict_json import to_plain
from calipers.support.tabular import Tabular, keep_scalars, list_metric_rows
from calipers.support.version import __version__

SCHEMA = "calipers.power/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerGroup:
    """The tasks of a group, in both files where there are two, and the metrics on them."""

    by: Mapping[str, Any]
    records: int  # of the base
    errors: int
    tasks: int
    only_base: int
    only_candidate: int
    metrics: Mapping[str, MetricPower]


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerAnalysis(Printed, Tabular):
    """What a run could have seen, and how large the next must be. Prints as tables."""

    base: str
    candidate: str | None  # with one, the variance of the difference is measured, not assumed
    aim: PowerOptions
    groups: tuple[PowerGroup, ...]
    settings: Mapping[str, Any]
    notices: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 when there was nothing to measure."""
        return EXIT_PASS if self.groups else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON, as Python values."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "settings": {**to_plain(self.aim), **self.settings},
            "base": self.base,
            "candidate": self.candidate,
            "groups": to_plain(self.groups),
            **({"notices": list(self.notices)} if self.notices else {}),
        }

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per group, metric and number of runs."""
        for group in self.groups:
            for name, found in group.metrics.items():
                [row] = list_metric_rows(group.by, {name: found.to_dict()})
                yield from ({**row, **keep_scalars(asdict(plan))} for plan in found.plans)


def power_data(data: Any, candidate: Any, aim: PowerOptions, options: Options) -> PowerAnalysis:
    """Return how large a comparison must be, estimated from one run, or from two, paired."""
    if all(isinstance(each, str) and each == STDIN for each in (data, candidate)):
        raise UsageError("standard input can be read once", fix="name a file for one of the two")
    metrics = _choose_metrics(options.metrics)
    reading = replace(options, metrics=tuple(metric.name for metric in metrics))
    sides = [_read(each, reading) for each in (data, candidate) if each is not None]
    result = partial(
        PowerAnalysis,
        base=sides[0].name,
        candidate=None if candidate is None else sides[1].name,
        aim=aim,
        settings=asdict(options.settings),
    )
    if not all(side.records for side in sides):
        return result(groups=())
    if options.metrics:
        groups = _measure_groups(sides, metrics, aim)
    else:
        groups = _measure_groups(sides, _keep_present(sides[0], metrics), aim)
        groups = _drop_empty(groups, metrics)
    notices = (*chain.from_iterable(map(note_pooled, sides)), *_note_unmatched(sides, groups))
    return result(groups=tuple(groups.values()), notices=notices)


def _choose_metrics(names: Sequence[str]) -> list[Metric]:
    """Return the metrics named, or all with a better direction; of two over one feature, one."""
    if names:
        return list(dict.fromkeys(map(metric_named, names)))
    found: dict[Any, Metric] = {}
    for metric in catalogue().values():
        if metric.better is not None:
            found.setdefault(metric if metric.averaged is None else metric.averaged, metric)
    return list(found.values())


def _read(data: Any, options: Options) -> TaskRows:
    found = read_tasks(data, options, keep=TELL_SYSTEMS_APART)
    if found.records:
        check_fields(found.present, found.plan, open_sources(data), options.map)
    return found


def _keep_present(side: TaskRows, metrics: Sequence[Metric]) -> list[Metric]:
    present = [metric for metric in metrics if side.has_fields(metric)]
    if not present:
        raise DataError(
            f"{side.name}: no metric finds the fields that it needs",
            fix="name them, for example --map correct=passed; what is needed: calipers metrics",
        )
    return present


def _drop_empty(
    groups: Mapping[str, PowerGroup], metrics: Sequence[Metric]
) -> dict[str, PowerGroup]:
    """Drop metrics that no group has and nobody asked for, as `score` does."""
    known = {
        name
        for group in groups.values()
        for name, found in group.metrics.items()
        if found.value is not None
    }
    known |= {metric.name for metric in metrics if not metric.optional}
    return {
        text: replace(group, metrics={k: v for k, v in group.metrics.items() if k in known})
        for text, group in groups.items()
    }


def _measure_groups(
    sides: Sequence[TaskRows], metrics: Sequence[Metric], aim: PowerOptions
) -> dict[str, PowerGroup]:
    tasks = [side.rows.select(GROUP, TASK).unique() for side in sides]
    paired = tasks[0].join(tasks[-1], on=[GROUP, TASK], how="semi")
    of_base, of_candidate, of_both = (_count_rows(each) for each in (tasks[0], tasks[-1], paired))
    shared = [text for text in of_base if text in of_candidate]
    if not of_both:
        _refuse_unpaired(sides, by=() if shared else sides[0].plan.by)
    records, errors = _count_rows(sides[0].rows), _count_rows(sides[0].rows.filter(FAILED))
    values = {metric: [_list_values(side, metric) for side in sides] for metric in metrics}
    return {
        text: PowerGroup(
            by=key,
            records=records[text],
            errors=errors.get(text, 0),
            tasks=of_both.get(text, 0),
            only_base=of_base[text] - of_both.get(text, 0),
            only_candidate=of_candidate[text] - of_both.get(text, 0),
            metrics={
                metric.name: measure_power(metric, [side.get(text) for side in found], aim)
                for metric, found in values.items()
            },
        )
        for text, key in sort_keys(shared, sides[0].plan.by).items()
    }


def _count_rows(rows: pl.DataFrame) -> dict[str, int]:
    return dict(rows.group_by(GROUP).len().iter_rows())


def _list_values(side: TaskRows, metric: Metric) -> dict[str, pl.DataFrame]:
    """Return each group's values: a row per record, or per task if only tasks have one."""
    averaged = metric.averaged
    if isinstance(averaged, Feature):
        value = pl.col(averaged.name).cast(pl.Float64)
        value = 1 - value if metric.complement else value
        rows = side.rows.filter(pl.col(averaged.name).is_not_null())
        found = rows.select(GROUP, TASK, value.alias(VALUE), pl.lit(1).alias(RUNS))
    elif (per := measure_tasks(side, metric)) is not None:
        found = per
    else:
        return {}
    return {str(text): rows for (text,), rows in found.partition_by(GROUP, as_dict=True).items()}


def _refuse_unpaired(sides: Sequence[TaskRows], by: Sequence[str]) -> NoReturn:
    where = " and ".join(side.name for side in sides)
    if by:
        raise DataError(
            f"no group of --by {' --by '.join(by)} is in both {where}",
            fix="group by a field with the same values in both, or leave --by out",
        )
    raise DataError(
        f"no id is in both {where}",
        fix="name the field that identifies tasks: --map id=NAME; or leave CANDIDATE out, "
        "then --correlation says how alike the systems are taken to be",
    )


def _note_unmatched(sides: Sequence[TaskRows], groups: Iterable[str]) -> Iterator[str]:
    for side in sides:
        if alone := set(side.rows[GROUP].unique()).difference(groups):
            keys = sort_keys(alone, side.plan.by).values()
            shown = "; ".join(", ".join(map(str, key.values())) for key in keys)
            yield f"only in {side.name}, and left out: {shown}"
