"""From data to judgments: who judged which record how, and the sums of the judge's items.

A record is one run. Its `judgments` are a list of objects; a judge that is not named is numbered by
its place, and one that judges a record twice counts as two, never averaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from calipers.engines.group_codes import write_cluster
from calipers.engines.plan import list_cluster_fields
from calipers.judges import rubric_items
from calipers.judges.rubric_items import NO_RUBRIC, NoSum, RubricWeights
from calipers.records.batch import BadRow, Batch, Source, Wanted, format_bad_rows
from calipers.records.fields import BadValue, Field, Kind, Number
from calipers.records.rows import settle_types
from calipers.records.sources import open_sources
from calipers.scores.options import Options
from calipers.support.config import shown
from calipers.support.errors import DataError, UsageError, nearest, quote_name

JUDGMENTS, RUBRIC = "judgments", "rubric"
RECORD, JUDGE, PASSED, SCORE = "record", "judge", "passed", "weighted_score"
MODEL = "judge_model"
ITEMS, ROUNDING, PROBLEM = "items", "rounding", "problem"
FLAGGED = "flagged"
NAMELESS, REPEATED = "nameless", "repeated"
ID, WHERE, CLUSTER, FAILED = "id", "_where", "_cluster", "_failed"
SYSTEM, CHARS = "_system", "_chars"  # whose answer was judged, and how long it is
MOST_JUDGES = 200  # more are probably not judges, and their table would not fit in memory

_OVERALL = "overall_score"
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


def collect_judgments(
    data: Any, options: Options, rubric: RubricWeights | None = None
) -> JudgedRecords:
    """Return all judgments in the records of `data`; `rubric` overrides one in a record."""
    sources = open_sources(data)
    clusters = list_cluster_fields(options.cluster)
    identifying = (ID, "error", JUDGMENTS, "model", "answer", RUBRIC)
    fields = dict.fromkeys((*identifying, *options.by, *clusters))
    wanted = Wanted(tuple(fields), options.map, as_is=(JUDGMENTS,), keys=options.by)
    reader = _JudgmentReader(settle_types(sources, wanted), rubric)
    for source in sources:
        reader.read(source, skip_bad=options.on_bad == "skip")
    records = reader.records()
    _check_options(records, {name for source in sources for name in source.columns()}, options)
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
                raise min(bad, key=lambda bad_row: bad_row.row).make_error()
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
                judgments = list(self._read_judgments(text, own))
            except BadValue as problem:
                problem_text = f"{self._wanted.get_name(JUDGMENTS)}: {problem}"
                yield BadRow(source=source, row=number, problem=problem_text, content=text)
                continue
            rows += ((self._kept, *judgment) for judgment in judgments)
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
            given = _read_field(_NAME, judgment, JUDGE, f"{place}") or ""
            is_named = bool(given.strip())
            known_as = given if is_named else f"judge {place}"
            name = _make_unique(known_as, taken)
            passed = _read_field(_PASSED, judgment, PASSED, f"by {name}")
            # ProjectScylla's judgments call it `score`.
            is_scylla = SCORE not in judgment and "criteria_scores" in judgment
            key = "score" if is_scylla else SCORE
            if judgment.get(key) is None and _is_share(judgment.get(_OVERALL)):
                key = _OVERALL  # of a rubric that decides nothing
            score = _read_field(_SCORE, judgment, key, f"by {name}")
            items = _check_items(judgment, judgment.get(key), score, rubric)
            model, flagged = str(judgment.get("model") or known_as), bool(judgment.get("flags"))
            yield name, not is_named, name != known_as, passed, score, *items, model, flagged


def _is_share(value: Any) -> bool:
    is_number = isinstance(value, int | float | Number) and not isinstance(value, bool)
    return is_number and 0 <= float(value) <= 1


def _make_unique(name: str, taken: dict[str, int]) -> str:
    """Return the name, with a number if it is taken; `taken` counts each name."""
    unique_name = name
    while unique_name in taken:
        taken[name] += 1
        unique_name = f"{name} #{taken[name]}"
    taken[unique_name] = 1
    return unique_name


def _parse_list(text: str | None) -> Sequence[Mapping[str, Any]]:
    if text is None:
        return ()
    try:
        judgments = _loads(text)
    except RecursionError:
        raise BadValue("nested too deep") from None
    except ValueError:
        judgments = None
    if not isinstance(judgments, list):
        raise BadValue(f"{shown(text)} is not a list of judgments")
    for place, judgment in enumerate(judgments, start=1):
        if not isinstance(judgment, dict):
            raise BadValue(f"judgment {place} is not an object")
    return judgments


def _read_own_rubric(text: Any) -> RubricWeights | NoSum:
    """Return the rubric that a record carries; a name or any other plain value is none."""
    if not isinstance(text, str) or not text.lstrip().startswith(("{", "[")):
        return NO_RUBRIC
    try:
        return rubric_items.parse_weights(_loads(text))
    except NoSum as problem:
        return NoSum(f"rubric: {problem}")
    except (ValueError, RecursionError):
        return NO_RUBRIC


def _read_field(field: Field, judgment: Mapping[str, Any], key: str, which: str) -> Any:
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


def _check_options(records: pl.DataFrame, columns: set[str], options: Options) -> None:
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
    clusters = list_cluster_fields(options.cluster)
    asked |= dict.fromkeys(clusters, f"--cluster {options.cluster}")
    for name, option in asked.items():
        if name in records.columns and records[name].null_count() == records.height:
            given = options.map.get(name, name)
            raise UsageError(
                f"{quote_name(option)}: no record has a value in {quote_name(given)}",
                fix=nearest(given, columns),
            )
    for name in (ID, *clusters[-1:]):
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
    fields = list_cluster_fields(cluster)
    return records.with_columns(
        task.alias(ID),
        (task if not fields else write_cluster(fields, crossed=False)).alias(CLUSTER),
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
        yield format_bad_rows(skipped)
