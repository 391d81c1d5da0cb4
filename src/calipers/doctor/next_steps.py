"""Which questions the records can answer, and the commands to run next, ready to be copied."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from math import sqrt
from shlex import quote

import polars as pl

from calipers.comparisons.comparison_options import PowerOptions
from calipers.comparisons.power import measure_power
from calipers.doctor.facts import OUTCOME, SYSTEM, TASK, Facts, Outcomes
from calipers.doctor.result import Detectable, HeldFile, Support
from calipers.metrics import catalogue, metric_named
from calipers.metrics.declare.declaration import RUNS, Aggregate, is_met
from calipers.metrics.declare.declaration import TASK as METRIC_TASK
from calipers.records.column_hints import format_map_options, suggest_answers, suggest_fields
from calipers.scores.task_values import VALUE

_MOST_SYSTEMS = 50  # whose pairs are counted
_COUNTED = "runs"


def find_support(facts: Facts, present: Collection[str], maps: Mapping[str, str]) -> Support:
    """Return what the records support, as they are and with the fields that look like others."""
    runs = facts.rows.group_by(SYSTEM, TASK).agg(pl.len().alias(_COUNTED))[_COUNTED]
    most = int(runs.max() or 0)  # type: ignore[arg-type]
    metrics = list(_list_measurable(present, most))
    mapped = _list_measurable({*present, *maps}, most) if maps else ()
    outcome = facts.find_outcome()
    common, pairs = _count_shared_tasks(facts)
    return Support(
        tasks=round(facts.rows[TASK].n_unique() / facts.share),
        systems=facts.systems,
        runs=(int(runs.min() or 0), most),  # type: ignore[arg-type]
        pairs=pairs,
        common_tasks=round(common / facts.share),
        share=facts.share,
        metrics=tuple(metrics),
        with_map=tuple(name for name in mapped if name not in metrics),
        detectable=None if outcome is None else _find_detectable(outcome, facts.share),
    )


def _list_measurable(present: Collection[str], runs: int) -> Iterator[str]:
    """Yield the metrics whose fields are there; those over runs only where a task has several."""
    for name, metric in catalogue().items():
        met = all(is_met(need, present.__contains__) for need in metric.needs)
        of_runs = isinstance(metric.aggregate, Aggregate) and bool(metric.aggregate.tasks)
        if met and (runs > 1 or not of_runs):
            yield name


def _count_shared_tasks(facts: Facts) -> tuple[int, int]:
    """Return how many tasks all systems have, and how many pairs of systems share any."""
    if not facts.has_ids:
        return 0, 0
    tasks = facts.rows.select(SYSTEM, TASK).unique()
    common = tasks.group_by(TASK).len().filter(pl.col("len") == len(facts.systems)).height
    if common or len(facts.systems) > _MOST_SYSTEMS:
        count = len(facts.systems)
        return common, count * (count - 1) // 2 if common else 0
    parts = {name: set(tasks.filter(pl.col(SYSTEM) == name)[TASK]) for name in facts.systems}
    return 0, sum(bool(a & b) for a, b in combinations(parts.values(), 2))


def _find_detectable(outcome: Outcomes, share: float) -> Detectable:
    """Return the smallest difference between the two best systems that would be seen.

    Of a sample of the tasks, it is scaled by the square root of the sampled share.
    """
    metric = metric_named(outcome.metric)
    means = outcome.rows.group_by(SYSTEM).agg(
        pl.col(OUTCOME).mean(), pl.col(TASK).n_unique().alias(_COUNTED)
    )
    enough = means.filter(pl.col(_COUNTED) * 2 >= pl.col(_COUNTED).max())
    systems = enough.sort(-pl.col(OUTCOME), SYSTEM)[SYSTEM].to_list()[:2]
    sides = [_select_side(outcome.rows, system) for system in systems]
    if len(sides) > 1 and sides[0].join(sides[1], on=METRIC_TASK, how="semi").height == 0:
        largest = means.sort(-pl.col(_COUNTED).cast(pl.Int64), SYSTEM)[SYSTEM][0]
        systems, sides = [largest], [_select_side(outcome.rows, largest)]
    power = measure_power(metric, sides, PowerOptions())
    return Detectable(
        metric=outcome.metric,
        systems=tuple(systems),
        tasks=round(power.tasks / share),
        value=None if power.detectable is None else power.detectable * sqrt(share),
        reason=power.reasons.get("detectable"),
    )


def _select_side(rows: pl.DataFrame, system: str) -> pl.DataFrame:
    return rows.filter(pl.col(SYSTEM) == system).select(
        pl.col(TASK).cast(pl.Int64, strict=False, wrap_numerical=True).alias(METRIC_TASK),
        pl.col(OUTCOME).alias(VALUE),
        pl.lit(1).alias(RUNS),
    )


_SMALL = 0.05  # a difference that people mostly want to see
_SEVERAL = 2


def list_commands(
    given: Sequence[str], files: Sequence[HeldFile], support: Support, present: Collection[str]
) -> Iterator[str]:
    """Yield commands with the files as the user named them, quoted for a shell."""
    maps = format_map_options(
        {name: theirs for file in files for name, theirs in file.maps.items()}
    )
    named = " ".join(map(quote, given))
    is_mapped = bool(support.with_map) or any("id" in file.maps for file in files)
    if is_mapped:
        yield " ".join(("calipers doctor", named, *maps))
    if not (support.metrics or support.with_map) and "winner" not in present:
        yield from (
            *_read_wide(" ".join((named, *maps)), files),
            *_read_nested(named, files),
            "calipers metrics",
        )
        return
    asked = " ".join((named, *maps)) if is_mapped else named
    asked += " --on-bad skip" if any(file.bad_rows for file in files) else ""
    if any({*sides, "winner"} <= set(present) for sides in (("a", "b"), ("model_a", "model_b"))):
        yield f"calipers judge audit {named}"
        yield f"calipers rank {named}"
        return
    field = _find_telling_field(support, present)
    by = "" if field is None else f" --by {field}"
    if len(given) == _SEVERAL and field is None and support.pairs:
        yield f"calipers compare {asked}"
    else:
        yield f"calipers score {asked}{by}"
        if field == "tier" and any(system.split(" · ")[-1] == "T0" for system in support.systems):
            yield f"calipers score {asked} --by tier --profile tiers"
        if field is not None and support.common_tasks:
            if len(support.systems) > _SEVERAL:
                yield f"calipers rank {asked}{by}"
            else:
                yield f"calipers compare {asked} --between {field}"
    if "judgments" in present:
        yield f"calipers judge audit {named}"
    power = support.detectable
    if power is not None and (power.value is None or power.value > _SMALL) and len(given) == 1:
        yield f"calipers power {asked} --delta {_SMALL:g}{by}"


def _read_wide(asked: str, files: Sequence[HeldFile]) -> Iterator[str]:
    """Yield the command that reads a table with a column of answers per system."""
    wide = suggest_answers([column.name for file in files[:1] for column in file.fields])
    if wide:
        names = (_quote_cell(name) for name in wide)
        yield f"calipers score {asked} --answers {quote(','.join(names))}"


def _quote_cell(name: str) -> str:
    """Return a name as `--answers` reads it, like a cell of CSV."""
    return '"{}"'.format(name.replace('"', '""')) if {",", '"'} & {*name} else name


def _read_nested(named: str, files: Sequence[HeldFile]) -> Iterator[str]:
    """Yield the command that reads fields from inside objects, where some are called like ours."""
    for file in files[:1]:
        suggested = suggest_fields([*(column.name for column in file.fields), *file.inside])
        if suggested and file.inside:
            by = " --by model" if "model" in suggested else ""
            yield " ".join(("calipers score", named, *format_map_options(suggested))) + by


def _find_telling_field(support: Support, present: Collection[str]) -> str | None:
    """Return the field by which systems differ, the model before the tier."""
    if len(support.systems) < _SEVERAL:
        return None
    parts = [name.split(" · ") for name in support.systems]
    for place, name in enumerate(name for name in ("model", "tier") if name in present):
        if len({tuple(part[place : place + 1]) for part in parts}) > 1:
            return name
    return None
