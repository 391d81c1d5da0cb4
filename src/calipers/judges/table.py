"""From data to judgments: who judged which record how, and the sums of the judge's items.

A record is one run. Its `judgments` are a list of objects; a judge that is not named is numbered by
its place, and one that judges a record twice counts as two, never averaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from calipers.judges import rubric_items
from calipers.judges.rubric_items import NO_RUBRIC, NoSum, RubricWeights
from calipers.records.batch import note_bad_rows
from calipers.records.fields import BadValue, Field, Kind, Number
from calipers.records.sources import BadRow, Batch, Source, Wanted, open_sources
from calipers.scores.options import Options
from calipers.support.config.files import shown
from calipers.support.errors import DataError, UsageError, nearest
from calipers.support.quick_dataclasses import dataclass

JUDGMENTS, RUBRIC = "judgments", "rubric"
RECORD, JUDGE, PASSED, SCORE = "record", "judge", "passed", "weighted_score"
MODEL = "judge_model"
ITEMS, ROUNDING, PROBLEM = "items", "rounding", "problem"
FLAGGED = "flagged"
NAMELESS, REPEATED = "nameless", "repeated"
ID, WHERE, CLUSTER, FAILED = "id", "_where", "_cluster", "_failed"
SYSTEM, CHARS = "_system", "_chars"  # whose answer was judged, and how long it is
MOST_JUDGES = 200  # more are probably not judges, and their table would not fit in memory

_NOT_AN_ERROR = ("", "false")
_PASSED = Field(PASSED, Kind.BOOLEAN)
_SCORE = Field(SCORE, Kind.NUMBER, low=0, high=1)
_NAME = Field(JUDGE, Kind.TEXT)
_COLUMNS: dict[str, pl.DataType] = {
    RECORD: pl.Int64(),
    JUDGE: pl.String(),
    NAMELESS: pl.Boolean(),  # the name is its place
    REPEATED: pl.Boolean(),  # the name is another judgment's in the record, and a number
    PASSED: pl.Boolean(),
    SCORE: pl.Float64(),
    ITEMS: pl.Float64(),  # what the judge's own items add up to
    ROUNDING: pl.Float64(),  # how far the score may be from that
    PROBLEM: pl.String(),  # why items give no sum
    MODEL: pl.String(),  # of the judge, else its name
    FLAGGED: pl.Boolean(),  # the text seems to address the judge
}
_loads = partial(json.loads, parse_float=Number, parse_int=Number)


@dataclass(frozen=True, kw_only=True)
class JudgedRecords:
    """The records and the judgments in them; a judgment names its record by its row."""

    records: pl.DataFrame  # id, where it stands, cluster, the fields to group by, failed
    judgments: pl.DataFrame  # of the records that did not fail
    notices: tuple[str, ...]


def read_judgments(
    data: Any, options: Options, rubric: RubricWeights | None = None
) -> JudgedRecords:
    """Return all judgments in the records of `data`; `rubric` overrides one in a record."""
    sources = open_sources(data)
    clusters = () if options.cluster is None else (options.cluster,)
    told = (ID, "error", JUDGMENTS, "model", "answer", RUBRIC)
    fields = dict.fromkeys((*told, *options.by, *clusters))
    reader = _JudgmentReader(Wanted(tuple(fields), options.map, as_is=(JUDGMENTS,)), rubric)
    for source in sources:
        reader.read(source, skip_bad=options.on_bad == "skip")
    records = reader.records()
    _check(records, {name for source in sources for name in source.columns()}, options)
    numbered = records.height > 0 and records[ID].is_null().all()
    records = _add_keys(records, options.cluster)
    failed = records[FAILED].arg_true().cast(pl.Int64)
    judgments = reader.judgments().filter(~pl.col(RECORD).is_in(failed.implode()))
    judges = judgments[JUDGE].n_unique()
    if judges > MOST_JUDGES:
        raise DataError(
            f"{judges:,} different judges, more than {MOST_JUDGES}",
            fix="give a judge the same name in all records: `judge` names the judge alone",
        )
    notices = tuple(_list_notices(judgments, reader.skipped, numbered=numbered))
    return JudgedRecords(records=records, judgments=judgments, notices=notices)


class _JudgmentReader:
    """Reads sources batch by batch and keeps what an audit needs of them."""

    def __init__(self, wanted: Wanted, rubric: RubricWeights | None) -> None:
        self.skipped = 0
        self._wanted = wanted
        self._rubric = rubric
        self._kept = 0
        self._records: list[pl.DataFrame] = []
        self._rows: list[pl.DataFrame] = []

    def read(self, source: Source, *, skip_bad: bool) -> None:
        for chunk in source.chunks(self._wanted):
            batch = chunk.exact()
            bad = [*batch.bad, *self._add(batch, source.name)]
            if bad and not skip_bad:
                raise min(bad, key=lambda each: each.row).make_error()
            self.skipped += len(bad)

    def records(self) -> pl.DataFrame:
        """Return a row per record; `judgments` says whether it has a list of them."""
        nothing = dict.fromkeys((*self._wanted.fields, WHERE, SYSTEM, CHARS), pl.Null())
        return pl.concat([pl.DataFrame(schema=nothing), *self._records], how="diagonal_relaxed")

    def judgments(self) -> pl.DataFrame:
        return pl.concat([pl.DataFrame(schema=_COLUMNS), *self._rows])

    def _add(self, batch: Batch, source: str) -> Iterator[BadRow]:
        """Keep the records of a batch but those whose judgments cannot be read."""
        rows: list[tuple[Any, ...]] = []
        kept: list[int] = []
        texts = batch.frame.select(JUDGMENTS, RUBRIC).iter_rows()
        for place, (number, (text, own)) in enumerate(zip(batch.numbers, texts, strict=True)):
            try:
                found = list(self._read_judgments(text, own))
            except BadValue as problem:
                problem_text = f"{self._wanted.get_name(JUDGMENTS)}: {problem}"
                yield BadRow(source=source, row=number, problem=problem_text, content=text)
                continue
            rows += ((self._kept, *judgment) for judgment in found)
            self._kept += 1
            kept.append(place)
        where = pl.Series(WHERE, [f"{source}:{number}" for number in batch.numbers], pl.String)
        records = batch.frame.with_columns(
            pl.col(JUDGMENTS).is_not_null(),
            where,
            pl.col("model").cast(pl.String).alias(SYSTEM),
            pl.col("answer").cast(pl.String).str.len_chars().cast(pl.Int64).alias(CHARS),
            pl.lit(None).alias("answer"),  # it is not needed again
        )
        self._records.append(records[kept])
        self._rows.append(pl.DataFrame(rows, schema=_COLUMNS, orient="row"))

    def _read_judgments(self, text: str | None, own: Any) -> Iterator[tuple[Any, ...]]:
        judgments = _parse_list(text)
        rubric = _read_own_rubric(own) if self._rubric is None else self._rubric
        taken: dict[str, int] = {}
        for place, judgment in enumerate(judgments, start=1):
            given = (_read(_NAME, judgment, JUDGE, f"{place}") or "").strip()
            known_as = given or f"judge {place}"
            name = _make_unique(known_as, taken)
            passed = _read(_PASSED, judgment, PASSED, f"by {name}")
            # ProjectScylla's judgments call it `score`.
            is_scylla = SCORE not in judgment and "criteria_scores" in judgment
            key = "score" if is_scylla else SCORE
            score = _read(_SCORE, judgment, key, f"by {name}")
            found = _check_items(judgment, judgment.get(key), score, rubric)
            model, flagged = str(judgment.get("model") or known_as), bool(judgment.get("flags"))
            yield name, not given, name != known_as, passed, score, *found, model, flagged


def _make_unique(name: str, taken: dict[str, int]) -> str:
    """Return the name, with a number if it is taken; `taken` counts each name."""
    found = name
    while found in taken:
        taken[name] += 1
        found = f"{name} #{taken[name]}"
    taken[found] = 1
    return found


def _parse_list(text: str | None) -> Sequence[Mapping[str, Any]]:
    if text is None:
        return ()
    try:
        found = _loads(text)
    except RecursionError:
        raise BadValue("nested too deep") from None
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise BadValue(f"{shown(text)} is not a list of judgments")
    for place, each in enumerate(found, start=1):
        if not isinstance(each, dict):
            raise BadValue(f"judgment {place} is not an object")
    return found


def _read_own_rubric(text: Any) -> RubricWeights | NoSum:
    """Return the rubric that a record carries; a name or any other plain value is none."""
    if not isinstance(text, str) or not text.lstrip().startswith(("{", "[")):
        return NO_RUBRIC
    try:
        return rubric_items.parse_rubric(_loads(text))
    except NoSum as problem:
        return NoSum(f"rubric: {problem}")
    except (ValueError, RecursionError):
        return NO_RUBRIC


def _read(field: Field, judgment: Mapping[str, Any], key: str, which: str) -> Any:
    try:
        return field.read(judgment.get(key))
    except BadValue as problem:
        raise BadValue(f"judgment {shown(which)}: {key}: {problem}") from None


def _check_items(
    judgment: Mapping[str, Any], written: Any, score: float | None, rubric: RubricWeights | NoSum
) -> tuple[float | None, float | None, str | None]:
    """Return the sum of the items, the tolerance of the score, or why there is no sum."""
    own = NO_RUBRIC if isinstance(rubric, NoSum) else rubric
    try:
        items = rubric_items.list_items(judgment, own)
        if items is None:
            return None, None, None
        if own is rubric and score is not None:
            return rubric_items.sum_weighted(items), rubric_items.find_tolerance(written), None
        problem = f"there are items, but no {SCORE}" if own is rubric else str(rubric)
    except NoSum as error:
        problem = str(error)
    except OverflowError:
        problem = "numbers too large to add up"
    except RecursionError:
        problem = "nested too deep"
    return None, None, problem


def _check(records: pl.DataFrame, columns: set[str], options: Options) -> None:
    """Refuse options that fit no record, and records of which only some have an id."""
    if not records.height:
        return
    theirs = options.map.get(JUDGMENTS, JUDGMENTS)
    if not records[JUDGMENTS].any():
        raise UsageError(
            f"no record has {theirs}, a list of judgments",
            fix=f"read them from another field with --map {JUDGMENTS}=NAME: "
            f"{nearest(theirs, columns)}",
        )
    asked = {name: f"--by {name}" for name in options.by}
    asked |= {name: f"--map {name}={given}" for name, given in options.map.items()}
    asked |= {} if options.cluster is None else {options.cluster: f"--cluster {options.cluster}"}
    for name, option in asked.items():
        if name in records.columns and records[name].is_null().all():
            given = options.map.get(name, name)
            raise UsageError(
                f"{option}: no record has a value in {given}", fix=nearest(given, columns)
            )
    for name in filter(None, (ID, options.cluster)):
        lacking = records[name].null_count()
        if 0 < lacking < records.height:
            raise DataError(
                f"{lacking} of {records.height} records have no {name}, the others have one",
                fix="give it to every record, or name another field: "
                "--map id=NAME, --cluster FIELD",
            )


def _add_keys(records: pl.DataFrame, cluster: str | None) -> pl.DataFrame:
    error = pl.col("error").cast(pl.String)
    number = (pl.int_range(pl.len()) + 1).cast(pl.String)
    task = number if records[ID].is_null().all() else pl.col(ID)
    return records.with_columns(
        task.alias(ID),
        (task if cluster is None else pl.col(cluster).cast(pl.String)).alias(CLUSTER),
        (error.is_not_null() & ~error.is_in(_NOT_AN_ERROR)).alias(FAILED),
    )


def _list_notices(judgments: pl.DataFrame, skipped: int, *, numbered: bool) -> Iterator[str]:
    if numbered:
        yield "no record has an id: rows are numbered, each a task of its own"
    if nameless := judgments[NAMELESS].sum():
        yield (
            f"judgments without the name of their judge: {nameless:,}; "
            "they are numbered by their place in the record"
        )
    if repeated := judgments[REPEATED].sum():
        yield (
            f"judgments by a judge that has judged the record before: {repeated:,}; "
            "each counts as a judge of its own, NAME #2"
        )
    if skipped:
        yield note_bad_rows(skipped)
