"""Numbers for pages, by the same code that `score`, `compare` and `judge audit` run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from calipers.comparisons.doctor.examine import examine
from calipers.comparisons.doctor.results import Diagnosis
from calipers.comparisons.ranked_systems import FILE
from calipers.comparisons.ranking import RankOptions, rank_data
from calipers.comparisons.rankings import Ranking
from calipers.comparisons.results import Compared
from calipers.comparisons.runs import CompareOptions, compare_data
from calipers.dashboard.filters import Query
from calipers.dashboard.index import Index
from calipers.dashboard.indexes import Opened
from calipers.dashboard.kept import Kept
from calipers.dashboard.plans import ViewOptions
from calipers.judges.audit import Audit
from calipers.judges.auditing import audit_data
from calipers.metrics.declare.settings import Settings
from calipers.records.batch import Decoded
from calipers.records.columns import conform_columns
from calipers.records.sources import Batch, Wanted
from calipers.scores.results import Score
from calipers.scores.score import score_data
from calipers.support.errors import UsageError


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

    def chunks(self, wanted: Wanted) -> Iterator[Decoded]:
        """Yield the records part by part; parts without a kept row are not read."""
        starts = self._index.list_part_starts()
        for part, start in enumerate(starts):
            rows = self._index.summary.parts[part]
            if self._kept is not None and not self._kept.slice(start, rows).any():
                continue
            yield Decoded(partial(self._decode, part, start, wanted), (part + 1) / len(starts))

    def _decode(self, part: int, start: int, wanted: Wanted, *, thorough: bool = False) -> Batch:
        names = [name for name in wanted.fields if name in self._index.summary.fields]
        rows = self._index.summary.parts[part]
        frame = pl.scan_ipc(self._index.record_files[part])
        # In one piece: the small ones that a page is read in would cost every step of a measure.
        records = frame.select(names).collect().rechunk() if names else pl.DataFrame(height=rows)
        if self._kept is not None:
            records = records.filter(self._kept.slice(start, rows))
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
    """Two views compared, and the tasks that flipped."""

    result: Compared
    flips: tuple[Flip, ...]


class Measuring:
    """Scores, comparisons and audits of views: each is worked out once."""

    def __init__(self) -> None:
        self._scores: Kept[Score] = Kept()
        self._audits: Kept[Audit] = Kept()
        self._comparisons: Kept[ComparedViews] = Kept()
        self._diagnoses: Kept[Diagnosis] = Kept()
        self._rankings: Kept[Ranking] = Kept()

    def score(self, opened: Opened, query: Query, name: str) -> Score:
        """Return the score of the records in a view, grouped as it says, with data for figures."""
        options = ViewOptions(by=query.by, on_bad="skip", for_report=True, settings=opened.settings)
        data = partial(select_records, opened, query, name)
        key = opened.key, query.rows, query.by
        return self._scores.get(key, lambda: score_data(data(), options))

    def audit(self, opened: Opened, query: Query, name: str) -> Audit:
        """Return the audit of the judges of a view's records."""
        options = ViewOptions(by=query.by, on_bad="skip")
        key = opened.key, query.rows, query.by
        return self._audits.get(
            key, lambda: audit_data(select_records(opened, query, name), options)
        )

    def diagnose(self, opened: Opened, query: Query, name: str, path: Path) -> Diagnosis:
        """Return what a view's records hold and support, and what looks wrong in them."""
        records = partial(select_records, opened, query, name)
        return self._diagnoses.get(
            (opened.key, query.rows),
            lambda: examine(records(), field_map={}, known_as=str(path)),
        )

    def compare(
        self, base: tuple[Opened, Query, str], candidate: tuple[Opened, Query, str]
    ) -> ComparedViews:
        """Return the comparison of two views, task by task."""
        key = tuple((opened.key, query.rows) for opened, query, _ in (base, candidate))
        return self._comparisons.get(key, lambda: _compare(base, candidate))

    def rank(
        self, views: Sequence[tuple[Opened, Query, str]], metric: str | None, by: str | None
    ) -> Ranking:
        """Return the systems of a view, or several views as one system each, from the best down."""
        key = (*((opened.key, query.rows, name) for opened, query, name in views), metric, by)
        return self._rankings.get(key, lambda: _ranked(views, metric, by))


def _ranked(
    views: Sequence[tuple[Opened, Query, str]], metric: str | None, by: str | None
) -> Ranking:
    first = views[0][0].settings
    alike = all(opened.settings == first for opened, _, _ in views)
    options = ViewOptions(
        on_bad="skip",
        by=(FILE,) if len(views) > 1 else (by,) if by else (),
        metrics=(metric,) if metric else (),
        settings=first if alike else Settings(),
    )
    return rank_data([select_records(*view) for view in views], options, RankOptions())


def _compare(
    base: tuple[Opened, Query, str], candidate: tuple[Opened, Query, str]
) -> ComparedViews:
    sides = [select_records(*side) for side in (base, candidate)]
    ours, theirs = (side[0].settings for side in (base, candidate))
    options = ViewOptions(on_bad="skip", settings=ours if ours == theirs else Settings())
    with TemporaryDirectory(prefix="calipers-") as folder:
        path = Path(folder, "flips.jsonl")
        try:
            result = compare_data(sides, options, CompareOptions(flips=path))
        except UsageError as error:
            if "--flips" not in error.message:
                raise
            return ComparedViews(compare_data(sides, options, CompareOptions()), ())
        lines = path.read_text(encoding="utf-8").split("\n")
    return ComparedViews(result, tuple(_flip(json.loads(line)) for line in lines if line))


def _flip(found: Mapping[str, Any]) -> Flip:
    return Flip(
        id=str(found["id"]),
        run=None if found["run"] is None else str(found["run"]),
        lost=found["flip"].startswith("base right"),
        target=found["target"],
        base=found["base"],
        candidate=found["candidate"],
    )
