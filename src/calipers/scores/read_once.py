"""Records that are read and checked once, then scored by as many groupings as are asked for.

The engine's narrow columns are kept, in memory or in temporary files, while the block runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from calipers.engines.plan import Plan
from calipers.engines.watching import watch_together
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import GROUP, TASK, Feature
from calipers.records.sinks import Watch, open_sinks
from calipers.records.sources import Source, open_sources
from calipers.scores.options import Options
from calipers.scores.results import Input, Score
from calipers.scores.score import Progress, assemble_score, list_inputs, make_plan

if TYPE_CHECKING:
    from calipers.engines.outcome import Outcome
    from calipers.engines.reading import ReadRows
    from calipers.scores.tasks import TaskRows


@dataclass(frozen=True, kw_only=True)
class ReadRecords:
    """Records that have been read; any options that they were read for can be scored."""

    sources: Sequence[Source]
    rows: ReadRows
    hash_inputs: bool
    _measured: list[tuple[Options, Outcome]] = field(default_factory=list)

    def score(self, options: Options) -> Score:
        """Measure the records by the groups, and with the metrics, of these options."""
        outcome, plan = self.measure(options), make_plan(self.sources, options)
        return assemble_score(self.sources, outcome, plan, options, self._inputs)

    def measure(self, options: Options) -> Outcome:
        """Return what is found for these options: once, and for a report all that a score needs."""
        from calipers.engines.polars import measure  # noqa: PLC0415 (only when it is used)

        for known, outcome in self._measured:
            if options in (known, replace(known, for_report=False)):
                return outcome
        outcome = measure(self.rows, make_plan(self.sources, options))
        self._measured.append((options, outcome))
        return outcome

    def task_rows(self, metric: Metric, options: Options) -> TaskRows | None:
        """Return the rows with what one metric needs, in the groups of these options.

        A task has one number in all groups. None where not every record has an id.
        """
        from calipers.scores.tasks import TaskRows  # noqa: PLC0415 (only when it is used)

        if sum(reading.with_id for reading in self.rows.readings) < self.rows.store.rows:
            return None
        store, grouped = self.rows.store, self.rows.group(options.by)
        plan = replace(make_plan(self.sources, options), by=(), metrics=(metric,))
        columns = [name for name in plan.schema if name in store.columns and name != GROUP]
        pairs = zip(store.parts(columns), grouped.list_groups(), strict=True)
        frames = [part.with_columns(grouped.codes.decode(groups)) for part, groups in pairs]
        rows = pl.concat(frames).sort(GROUP, TASK, maintain_order=True)
        return TaskRows(name="the records", plan=plan, rows=rows)

    @cached_property
    def _inputs(self) -> tuple[Input, ...]:
        return tuple(list_inputs(self.sources, self.rows.readings, hash_all=self.hash_inputs))


@contextmanager
def read_once(
    data: Any,
    asked: Sequence[Options],
    *,
    by_if_few: Sequence[str] = (),
    watches: Sequence[Watch] = (),
    progress: Progress = lambda _: None,
) -> Iterator[ReadRecords]:
    """Read the records in `data` for options that differ in their groups and metrics alone.

    They can be grouped by the fields of any of these options, and by those of `by_if_few` that take
    no more than 1,000 values. Those who watch see every row on its way.
    """
    from calipers.engines.reading import read_rows  # noqa: PLC0415 (only when it is used)

    sources = open_sources(data)
    together = watch_together(watches)
    plan = _join([make_plan(sources, options) for options in asked], by_if_few)
    plan = replace(plan, kept=together.kept, sampled=together.columns)
    first = asked[0]
    wanted = replace(plan.list_wanted(first.map), keys=plan.regrouped_by)
    with (
        open_sinks(
            samples=None,
            bad_rows=first.bad_rows,
            skip_bad=first.on_bad == "skip",
            progress=progress,
            watch=together,
        ) as sinks,
        read_rows(sources, wanted, plan, sinks, first.engine) as rows,
    ):
        yield ReadRecords(sources=sources, rows=rows, hash_inputs=first.hash_inputs)


def _join(plans: Sequence[Plan], by_if_few: Sequence[str]) -> Plan:
    """Return the plan that reads, without groups, what any of the plans measures."""
    first = plans[0]
    assert all(plan.settings == first.settings for plan in plans), "one reading, one way to measure"
    assert all(plan.cluster == first.cluster for plan in plans)
    asked = [name for plan in plans for name in plan.by]
    return replace(
        first,
        metrics=tuple(dict.fromkeys(each for plan in plans for each in plan.metrics)),
        by=(),
        whole=tuple(dict.fromkeys(name for plan in plans for name in plan.whole)),
        regrouped_by=tuple(dict.fromkeys((*asked, *by_if_few))),
        regrouped_if_few=tuple(name for name in by_if_few if name not in first.by),
        described=_unite_features(plan.described for plan in plans),
        binned=_unite_features(plan.binned for plan in plans),
        widely_binned=_unite_features(plan.widely_binned for plan in plans),
        tallied=_unite_features(plan.tallied for plan in plans),
    )


def _unite_features(of_plans: Iterator[tuple[Feature, ...]]) -> tuple[Feature, ...]:
    """Return each feature once; the text of who judged is made for each plan."""
    return tuple({each.name: each for features in of_plans for each in features}.values())
