"""Numbers for pages, by the same code that `score`, `compare` and `judge audit` run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from calipers.comparisons.compare import compare_data, format_run
from calipers.comparisons.compare_result import Compared
from calipers.comparisons.comparison_options import CompareOptions, RankOptions
from calipers.comparisons.rank import rank_data
from calipers.comparisons.rank_result import Ranking
from calipers.comparisons.ranked_systems import FILE
from calipers.dashboard.caches import Memo
from calipers.dashboard.index import Index
from calipers.dashboard.index_builder import ViewOptions
from calipers.dashboard.index_cache import Opened
from calipers.dashboard.selection import Query
from calipers.doctor.examine import examine
from calipers.doctor.result import Diagnosis
from calipers.judges.audit_result import Audit
from calipers.judges.judge_audit import audit_data
from calipers.judges.judge_options import AuditOptions
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.judged import find_criterion
from calipers.records.batch import Batch, DecodedChunk, Wanted
from calipers.records.columns import conform_columns
from calipers.scores.result import Score
from calipers.scores.score import score_data

View = tuple[Opened, Query, str]
"""An index, which of its rows are meant, and what they are called."""


class IndexedRecords:
    """Records of an index, or those of them that a view shows, as a source to measure."""

    path: str | None = None

    def __init__(self, index: Index, name: str, kept: pl.Series | None = None) -> None:
        self.name = name
        self._index = index
        self._kept = kept

    def columns(self) -> list[str]:
        """Return the fields that any record has."""
        return list(self._index.summary.fields)

    @property
    def criteria(self) -> list[str]:
        """What judges gave numbers for, as the index knows it."""
        labels = ((name, find_criterion(name)) for name in self._index.summary.values)
        return [name[len("judged(") : -1] for name, metric in labels if metric is not None]

    def chunks(self, wanted: Wanted) -> Iterator[DecodedChunk]:
        """Yield the records part by part; parts without a kept row are not read."""
        starts = self._index.list_part_starts()
        for part, start in enumerate(starts):
            rows = self._index.summary.parts[part]
            if self._kept is not None and not self._kept.slice(start, rows).any():
                continue
            yield DecodedChunk(partial(self._decode, part, start, wanted), (part + 1) / len(starts))

    def _decode(self, part: int, start: int, wanted: Wanted, *, thorough: bool = False) -> Batch:
        names = [name for name in wanted.fields if name in self._index.summary.fields]
        rows = self._index.summary.parts[part]
        frame = self._index.scan("records", part)
        records = frame.select(names).collect() if names else pl.DataFrame(height=rows)
        if self._kept is not None:
            records = records.filter(self._kept.slice(start, rows))
        # In one chunk: the small ones that pages are read in would slow down every step.
        records = records.rechunk()
        return conform_columns(records, wanted, self.name, start + 1, thorough=thorough)


def select_records(opened: Opened, query: Query, name: str) -> IndexedRecords:
    """Return the records that a view shows."""
    if not query.narrows:
        return IndexedRecords(opened.index, name)
    rows = opened.selector.select_all(query)
    kept = pl.Series([False], dtype=pl.Boolean).new_from_index(0, opened.index.rows)
    return IndexedRecords(opened.index, name, kept.scatter(rows, values=True))


@dataclass(frozen=True, slots=True)
class Flip:
    """A task that is right on one side and wrong on the other."""

    id: str
    run: str | None
    lost: bool
    target: str | None
    base: str | None
    candidate: str | None


@dataclass(frozen=True, slots=True)
class ComparedViews:
    """Views compared and, of two of them, the tasks that flipped: a row each."""

    result: Compared
    flipped: pl.DataFrame

    def list_flips(self, which: str, most: int) -> list[Flip]:
        """Return the first flips: `lost`, `won`, or both if it says neither."""
        rows = self.flipped
        if which in ("lost", "won"):
            rows = rows.filter(pl.col("lost") == (which == "lost"))
        return [_read_flip(row) for row in rows.head(most).iter_rows(named=True)]

    def find_neighbours(self, id_: str, run: str | None) -> tuple[Flip | None, Flip | None]:
        """Return the flips before and after that of a task and run; None where there is none."""
        flips = list(map(_read_flip, self.flipped.iter_rows(named=True)))
        for before, flip, behind in zip([None, *flips], flips, [*flips[1:], None], strict=False):
            if (flip.id, flip.run) == (id_, run):
                return before, behind
        return None, None


class Measurements:
    """Scores, comparisons and audits of views, each computed once."""

    def __init__(self) -> None:
        self._scores: Memo[Score] = Memo()
        self._audits: Memo[Audit] = Memo()
        self._comparisons: Memo[ComparedViews] = Memo()
        self._diagnoses: Memo[Diagnosis] = Memo()
        self._rankings: Memo[Ranking] = Memo()

    def score(
        self, opened: Opened, query: Query, name: str, metrics: tuple[str, ...] = ()
    ) -> Score:
        """Return the score of the records in a view, grouped as it says, with data for figures.

        `metrics` names those to measure; without, it is all of them.
        """
        options = ViewOptions(
            by=query.by,
            on_bad="skip",
            for_report=not metrics,
            settings=opened.settings,
            metrics=metrics,
        )
        key = opened.key, query.rows, query.by, metrics
        data = partial(select_records, opened, query, name)
        return self._scores.get(key, lambda: score_data(data(), options))

    def audit(self, opened: Opened, query: Query, name: str) -> Audit:
        """Return the audit of the judges of a view's records."""
        options = ViewOptions(by=query.by, on_bad="skip")
        data = partial(select_records, opened, query, name)
        key = opened.key, query.rows, query.by
        return self._audits.get(key, lambda: audit_data(data(), options, AuditOptions()))

    def diagnose(self, opened: Opened, query: Query, name: str, path: Path) -> Diagnosis:
        """Return what a view's records hold and support, and what looks wrong in them."""
        data = partial(select_records, opened, query, name)
        key = opened.key, query.rows
        return self._diagnoses.get(key, lambda: examine(data(), field_map={}, known_as=str(path)))

    def compare(self, views: Sequence[View]) -> ComparedViews:
        """Return the comparison of the first view with each of the others, task by task."""
        key = tuple((opened.key, query.rows) for opened, query, _ in views)
        return self._comparisons.get(key, lambda: _compare_views(views))

    def rank(
        self, views: Sequence[View], metric: str | None, by: str | None, tasks: str | None
    ) -> Ranking:
        """Return the systems of a view, or several views as one system each, from the best down.

        With a field as `tasks`, also each system's values on the tasks of each of its values.
        """
        of = (*((opened.key, query.rows, name) for opened, query, name in views),)
        asked = RankOptions(
            tasks=tasks or False,
            unpaired=not any("id" in opened.index.summary.fields for opened, _, _ in views),
        )
        key = of, metric, by, tasks
        return self._rankings.get(key, lambda: _rank_views(views, metric, by, asked))


def _find_settings(views: Sequence[View]) -> Settings:
    """Return the settings of the metrics that all views have; the defaults where they differ."""
    first = views[0][0].settings
    return first if all(opened.settings == first for opened, _, _ in views) else Settings()


def _rank_views(
    views: Sequence[View], metric: str | None, by: str | None, asked: RankOptions
) -> Ranking:
    options = ViewOptions(
        on_bad="skip",
        by=(FILE,) if len(views) > 1 else (by,) if by else (),
        metrics=(metric,) if metric else (),
        settings=_find_settings(views),
    )
    return rank_data([select_records(*view) for view in views], options, asked)


def _compare_views(views: Sequence[View]) -> ComparedViews:
    sides = [select_records(*view) for view in views]
    options = ViewOptions(on_bad="skip", settings=_find_settings(views))
    flipped: list[pl.DataFrame] = []
    asked = CompareOptions(
        take_flips=flipped.append,
        to_first=True,
        flip_signs=False,
        unpaired=not all("id" in opened.index.summary.fields for opened, _, _ in views),
    )
    result = compare_data(sides, options, asked)
    return ComparedViews(result, flipped[0] if flipped else pl.DataFrame())


def _read_flip(found: Mapping[str, Any]) -> Flip:
    run = format_run(found["run"])
    own = {name: found[name] for name in ("lost", "target", "base", "candidate")}
    return Flip(id=str(found["id"]), run=None if run is None else str(run), **own)
