"""Records that are read and checked once, then scored by any number of groupings.

The engine's narrow columns are kept, in memory or in temporary files, while the block runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from calipers.engines.features import watch_together
from calipers.engines.group_codes import hash_in_all
from calipers.engines.plan import CLUSTER_TEXT, IDENTITY, SAME_ID, TRUNCATED, Plan
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import CLUSTER, GROUP, TASK
from calipers.records.batch import Source
from calipers.records.sinks import Watch, open_sinks
from calipers.records.sources import open_sources
from calipers.scores.options import Options
from calipers.scores.result import Input, Score
from calipers.scores.score import (
    Progress,
    assemble_score,
    describe_inputs,
    list_seen,
    make_plan,
    make_weighed_plan,
)

if TYPE_CHECKING:
    from calipers.engines.outcome import Outcome
    from calipers.engines.read_rows import ReadRows
    from calipers.scores.task_values import TaskRows


@dataclass(frozen=True, kw_only=True)
class ReadRecords:
    """Records that have been read; any options that they were read for can be scored."""

    sources: Sequence[Source]
    rows: ReadRows
    hash_inputs: bool
    _outcomes: list[tuple[Plan, Outcome]] = field(default_factory=list)

    def measure(self, asked: Sequence[Options]) -> None:
        """Measure at once what several options ask for in the same groups, before each is scored.

        They differ in their groups and metrics alone.
        """
        plans = [self._widen(make_weighed_plan(self.sources, options)) for options in asked]
        for by in dict.fromkeys(plan.by for plan in plans):
            together = [self._restrict(plan) for plan in plans if plan.by == by]
            tasks = any(plan.per_task for plan in together)
            self._measure(replace(_join(together), only_present=False, per_task=tasks))

    def score(self, options: Options) -> Score:
        """Measure the records by the groups, and with the metrics, of these options.

        Metrics that were measured for other options are not measured again.
        """
        plan = make_weighed_plan(self.sources, options)
        wide = self._widen(plan)
        outcome = self._measure(self._restrict(wide))
        if wide.by != plan.by:
            outcome = outcome.rename_group(self._name_group(plan.by))
        return assemble_score(self.sources, outcome, plan, options, self._inputs)

    def _widen(self, plan: Plan) -> Plan:
        """Return the plan by the store's own groups, where all rows are one of these."""
        by = self.rows.plan.by
        one = len(self.rows.store.groups) == 1 and {*plan.by} <= {*by} and not plan.resamples
        return replace(plan, by=by) if one else plan

    def _name_group(self, by: Sequence[str]) -> str:
        """Return the text of the only group by some of the store's fields."""
        [text] = self.rows.store.groups
        fields = json.loads(text)
        own = {name: fields[name] for name in by}
        return json.dumps(own, ensure_ascii=False, separators=(",", ":"))

    def _restrict(self, plan: Plan) -> Plan:
        return plan.restrict([name for name, count in self.rows.having.items() if count])

    def _measure(self, plan: Plan) -> Outcome:
        """Return what was measured by a plan that covers this one, or else measure now."""
        from calipers.engines.polars_engine import measure  # noqa: PLC0415 (only when it is used)

        for known, outcome in self._outcomes:
            if known.covers(plan):
                return self._reduce(outcome, plan)
        outcome = measure(self.rows, plan)
        self._outcomes.append((plan, outcome))
        return outcome

    def _reduce(self, outcome: Outcome, plan: Plan) -> Outcome:
        """Return what a plan asks for beside totals: texts that are counted, and single tasks."""
        missing = [feature for feature in plan.tallied if feature.name not in outcome.tallies]
        tallies = dict(outcome.tallies)
        if missing:
            rows = self.rows.group(plan.by)
            tallies |= {feature.name: self.rows.tally(rows, feature) for feature in missing}
        own = {feature.name: tallies[feature.name] for feature in plan.tallied}
        outcome = replace(outcome, tallies=own)
        if plan.per_task:
            return outcome
        return replace(outcome, flakiest=None, attempts=None, runs=None)

    def count_tasks(self) -> int:
        """Return how many tasks there are; a record without an id is one of its own."""
        return sum(map(_count_tasks, self.rows.store.parts([GROUP, SAME_ID])))

    def task_rows(self, metric: Metric, options: Options) -> TaskRows | None:
        """Return the rows with what one metric needs, in the groups of these options.

        A task has one number in all groups. None where not every record has an id.
        """
        from calipers.scores.task_values import TaskRows  # noqa: PLC0415 (only when it is used)

        if sum(reading.with_id for reading in self.rows.readings) < self.rows.store.rows:
            return None
        store, grouped = self.rows.store, self.rows.group(options.by)
        plan = make_plan(self.sources, replace(options, for_report=False))
        plan = replace(plan, by=(), metrics=(metric,))
        own = {TASK: pl.col(SAME_ID)}
        if plan.cluster is not None:
            own[CLUSTER] = hash_in_all(CLUSTER_TEXT)
        unused = (GROUP, IDENTITY, TRUNCATED)
        columns = [name for name in plan.schema if name in store.columns and name not in unused]
        needed = {SAME_ID, CLUSTER_TEXT, *columns}.intersection(store.columns)
        parts = zip(store.parts(sorted(needed)), grouped.list_groups(), strict=True)
        rows = pl.concat(
            part.with_columns(**own).select(columns).with_columns(groups) for part, groups in parts
        )
        systems = rows.partition_by(GROUP, as_dict=True, include_key=False)
        by_text = {text: systems[grouped.codes.number(text),] for text in sorted(grouped.groups)}
        return TaskRows(name="the records", plan=plan, rows=_sort_tasks(by_text))

    @cached_property
    def _inputs(self) -> tuple[Input, ...]:
        return tuple(describe_inputs(self.sources, self.rows.readings, hash_all=self.hash_inputs))


def _count_tasks(part: pl.DataFrame) -> int:
    """Return the tasks of rows in the order of groups, which most often have the same tasks."""
    ids = part[SAME_ID]
    if ids.null_count():
        return ids.drop_nulls().n_unique() + ids.null_count()
    sizes = part[GROUP].rle().struct.field("len")
    starts = sizes.cum_sum() - sizes
    of_groups = [ids[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    if all(ids.equals(of_groups[0]) for ids in of_groups):
        ids = of_groups[0] if of_groups else ids
    return ids.n_unique()


def _sort_tasks(groups: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of all groups by group and task; most often groups have the same tasks."""
    texts = pl.Enum(list(groups))  # in the order of the texts, and as quick as numbers
    frames: list[pl.DataFrame] = []
    first: pl.Series | None = None
    for text, rows in groups.items():
        if first is None or not rows[TASK].equals(first):
            first = rows[TASK]
            order = rows.select(pl.arg_sort_by(TASK, maintain_order=True)).to_series()
        frames.append(rows[order].with_columns(pl.lit(text, texts).alias(GROUP)))
    return pl.concat(frames)


@contextmanager
def read_once(
    data: Any,
    asked: Sequence[Options],
    *,
    by: Sequence[str],
    by_if_few: Sequence[str] = (),
    watches: Sequence[Watch] = (),
    progress: Progress = lambda _: None,
) -> Iterator[ReadRecords]:
    """Read the records in `data` for options that differ in their groups and metrics alone.

    They can be grouped by the fields of any of these options, and by those of `by_if_few` that take
    no more than 1,000 values; soonest by all fields of `by` that they have, in whose groups they
    are kept. `watches` see every row.
    """
    from calipers.engines.read_rows import list_possible, read_rows  # noqa: PLC0415 (if used)

    sources = open_sources(data)
    together = watch_together(watches)
    first = asked[0]
    seen = list_seen(sources, first)
    plans = [make_weighed_plan(sources, options) for options in asked]
    plan = replace(
        _join(plans),
        by=tuple(name for name in by if name in seen),
        regrouped_by=tuple(
            dict.fromkeys((*(name for member in plans for name in member.by), *by_if_few))
        ),
        regrouped_if_few=tuple(name for name in by_if_few if name not in plans[0].by),
        kept=together.kept,
        sampled=together.columns,
    )
    watched = plan.watched
    if (there := list_possible(sources, plan.list_wanted(first.map), plan)) is not None:
        watched_names = {*plan.sample_columns.values()}  # what is watched is measured in any case
        also = (feature for feature in plan.features if feature.name in watched_names)
        possible = _join([member.restrict(there) for member in plans])
        plan = replace(plan, metrics=possible.metrics, of_tasks=(*plan.of_tasks, *also))
    wanted = replace(plan.list_wanted(first.map), keys=plan.regrouped_by)
    with (
        open_sinks(
            samples=None,
            bad_rows=first.bad_rows,
            skip_bad=first.on_bad == "skip",
            progress=progress,
            watch=together,
        ) as sinks,
        read_rows(sources, wanted, plan, sinks, first.engine) as measured,
    ):
        rows = replace(measured, having={**dict.fromkeys(watched, 0), **measured.having})
        yield ReadRecords(sources=sources, rows=rows, hash_inputs=first.hash_inputs)


def _join(plans: Sequence[Plan]) -> Plan:
    """Return the plan that measures what any of the plans does."""
    first = plans[0]
    assert all(plan.settings == first.settings for plan in plans), "one reading, one way to measure"
    assert all(plan.cluster == first.cluster for plan in plans)
    joined: dict[str, Any] = {
        part: tuple(
            dict.fromkeys(part_of_plan for plan in plans for part_of_plan in getattr(plan, part))
        )
        for part in ("metrics", "whole", "medians")
    }
    for part in ("described", "binned", "widely_binned", "tallied"):
        # Each by its name: the text of who judged is made for each plan.
        by_name = {
            part_of_plan.name: part_of_plan
            for plan in plans
            for part_of_plan in getattr(plan, part)
        }
        joined[part] = tuple(by_name.values())
    return replace(first, **joined)
