"""Agreement of raters: their ratings as a table, and every measure that these allow.

The table has a row per unit, which is one rated thing, and a column per rater. Data has a column
per rater, or records with `judgments`, or a row per rating. Two ratings of a unit by one rater mean
that the units are named wrong: they are refused, never averaged. Measures are for all raters, and
for each pair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, get_args

import numpy as np
import polars as pl

from calipers.comparisons.comparison_options import AgreeOptions
from calipers.records.batch import Source, Wanted
from calipers.records.rows import settle_types
from calipers.records.sources import open_sources
from calipers.scores.options import Options
from calipers.statistics import agreement
from calipers.statistics.agreement import Level
from calipers.statistics.clusters import Floats, Whole
from calipers.statistics.estimates import Estimate, Sampling
from calipers.support.errors import (
    EXIT_INCOMPLETE,
    EXIT_PASS,
    DataError,
    UsageError,
    nearest,
    quote_name,
)
from calipers.support.printing import Printed, Tabular, list_metric_rows
from calipers.support.strict_json import to_plain, to_plain_fields
from calipers.support.version import __version__

JUDGMENTS = "judgments"
JUDGED_VALUE = "weighted_score"

_UNIT, _CLUSTER, _RATER, _RATING = "_unit", "_cluster", "_rater", "_rating"
_NUMBER = "_number"
_BETWEEN = "\x1f"  # the fields of a key
_NOT_AN_ERROR = ("", "false")
_NOTHING = pl.DataFrame(schema=dict.fromkeys((_UNIT, _CLUSTER, _RATER, _RATING), pl.String))
_SHOWN = 60  # characters of a text from outside
_EXACT = 2**53  # below it a double holds every whole number
_NEVER_POOLED = (
    "a unit is one rated thing, never several pooled or averaged: "
    "name every field that identifies units, as in --unit task,run"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratings:
    """Who rated what how."""

    raters: tuple[str, ...]
    table: Floats  # a row per unit, a column per rater; NaN: no rating
    clusters: Whole  # of each unit: those that share one depend on each other
    label: str | None  # a rating that is not a number; if there is one, the table holds codes
    errors: int  # records whose call failed


def read_ratings(data: Any, asked: AgreeOptions, field_map: Mapping[str, str]) -> Ratings:
    """Return the ratings in `data`, which may call fields of the record differently."""
    sources = open_sources(data)
    columns = {name for source in sources for name in source.columns()}
    mapped = {name: f"--map {name}={theirs}" for name, theirs in field_map.items() if columns}
    known = columns | {*mapped}
    options = _choose_fields(asked, known) if columns else {}
    frame = read_fields(sources, (*options, *sorted({"id", "error"} & known)), field_map)
    for name, option in (options | mapped).items():
        theirs = field_map.get(name, name)
        is_unseen = name in frame.columns and theirs not in columns
        if is_unseen and frame[name].null_count() == frame.height:
            raise UsageError(
                f"{option}: no record has {quote_name(theirs)}", fix=nearest(theirs, columns)
            )
    called = frame
    if "error" in known:
        called = frame.filter(pl.col("error").fill_null("").is_in(_NOT_AN_ERROR))
    found = _list_ratings(_add_keys(called, asked), asked) if options else _NOTHING
    return _make_table(found, asked, errors=frame.height - called.height)


def _choose_fields(asked: AgreeOptions, columns: set[str]) -> dict[str, str]:
    """Return the fields to read from data with these columns, and the option of each."""
    more = dict.fromkeys(asked.unit, "--unit") | dict.fromkeys(asked.cluster, "--cluster")
    if asked.rater_field is not None and asked.value is not None:
        return {asked.rater_field: "--rater-field", asked.value: "--value"} | more
    named = bool(asked.raters) and asked.value is None and columns.issuperset(asked.raters)
    if JUDGMENTS in columns and not named:
        return {JUDGMENTS: "--value"} | more
    if asked.raters and asked.value is None:
        return dict.fromkeys(asked.raters, "--raters") | more
    raise UsageError(
        f"no ratings: no record has {JUDGMENTS}",
        fix="name a column per rater: --raters human,judge; or, for a row per rating, "
        "--rater-field judge --value score --unit id",
    )


def read_fields(
    sources: Sequence[Source], fields: Sequence[str], field_map: Mapping[str, str] | None = None
) -> pl.DataFrame:
    """Return these fields of all records as they are; a bad row is an error."""
    wanted = Wanted(tuple(dict.fromkeys(fields)), map=field_map or {}, as_is=(JUDGMENTS,))
    wanted = settle_types(sources, wanted)
    frames = []
    for source in sources:
        for chunk in source.chunks(wanted):
            batch = chunk.exact()
            if batch.bad:
                raise batch.bad[0].make_error()
            frames.append(batch.frame)
    nothing = pl.DataFrame(schema=dict.fromkeys(wanted.fields, pl.String))
    return pl.concat(frames, how="diagonal_relaxed") if frames else nothing


def _add_keys(frame: pl.DataFrame, asked: AgreeOptions) -> pl.DataFrame:
    cluster = asked.cluster
    if not cluster and "id" in frame.columns and not frame["id"].is_null().all():
        cluster = ("id",)
    for name in (*asked.unit, *cluster):
        if empty := frame[name].null_count():
            raise DataError(
                f"{empty} of {frame.height} records have no {name}",
                fix="give every record one, or name other fields: --unit FIELD, --cluster FIELD",
            )
    row = pl.int_range(pl.len()).cast(pl.String)
    keyed = frame.with_columns(_join_fields(frame, asked.unit, row).alias(_UNIT))
    keyed = keyed.with_columns(_join_fields(frame, cluster, pl.col(_UNIT)).alias(_CLUSTER))
    if asked.rater_field is None and keyed[_UNIT].is_duplicated().any():
        unit = keyed.filter(pl.col(_UNIT).is_duplicated())[_UNIT][0]
        raise DataError(f"more than one row is {_describe_unit(unit, asked)}", fix=_NEVER_POOLED)
    return keyed


def _join_fields(frame: pl.DataFrame, fields: Sequence[str], default: pl.Expr) -> pl.Expr:
    if not fields:
        return default
    return pl.concat_str([_as_text(frame[name]) for name in fields], separator=_BETWEEN)


def _as_text(column: pl.Series) -> pl.Series:
    """Return the column as text; whole numbers without a point."""
    values = column.alias("")  # Polars would read a name such as ^x$ as a pattern
    if values.dtype.is_float() and ((values == values.round()) & (values.abs() < _EXACT)).all():
        values = values.cast(pl.Int64)
    return values.cast(pl.String).alias(column.name)


def _describe_unit(unit: str, asked: AgreeOptions) -> str:
    if not asked.unit:
        return f"record {int(unit) + 1}"
    values = zip(asked.unit, unit.split(_BETWEEN), strict=True)
    return f"the unit {', '.join(f'{name}={value}' for name, value in values)}"


def _list_ratings(keyed: pl.DataFrame, asked: AgreeOptions) -> pl.DataFrame:
    """Return a row per rating: its unit, cluster and rater, and the rating as text."""
    ids = (_UNIT, _CLUSTER)
    if asked.rater_field is not None and asked.value is not None:
        rater, rating = _as_text(keyed[asked.rater_field]), _as_text(keyed[asked.value])
        return keyed.select(*ids, rater.alias(_RATER), rating.alias(_RATING))
    if JUDGMENTS in keyed.columns and JUDGMENTS not in asked.raters:
        rows = list(_read_judged(keyed.select(*ids, JUDGMENTS), asked.value or JUDGED_VALUE))
        return pl.DataFrame(rows, schema=_NOTHING.schema, orient="row")
    texts = keyed.select(*ids, *(_as_text(keyed[name]) for name in asked.raters))
    return texts.unpivot(index=ids, variable_name=_RATER, value_name=_RATING)


def _read_judged(rows: pl.DataFrame, value: str) -> Iterator[tuple[str, str, str, str | None]]:
    known: set[str] = set()
    for unit, cluster, text in rows.iter_rows():
        for judgment in _parse_judgments(text):
            scores = judgment.get("scores") or {}
            ratings = judgment | {f"scores.{name}": score for name, score in scores.items()}
            known |= ratings.keys() - {"judge", "scores"}
            rating = ratings.get(value)
            shown = rating if isinstance(rating, str | None) else json.dumps(rating)
            yield unit, cluster, str(judgment["judge"]), shown
    if known and value not in known:
        raise UsageError(f"--value {value}: no judgment has it", fix=nearest(value, known))


def _parse_judgments(text: str | None) -> list[dict[str, Any]]:
    try:
        found = [] if text is None else json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(map(_is_judgment, found)):
        raise DataError(
            f"{JUDGMENTS}: {str(text)[:_SHOWN]} is not a list of judgments",
            fix='each is an object with a judge: [{"judge": "j1", "weighted_score": 0.8}]',
        )
    return found


def _is_judgment(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and found.get("judge") is not None
        and isinstance(found.get("scores"), dict | None)
    )


def _make_table(found: pl.DataFrame, asked: AgreeOptions, errors: int) -> Ratings:
    raters = _list_raters(found, asked)
    found = found.filter(pl.col(_RATER).is_in(raters))
    units, first_rows = np.unique(found[_UNIT].to_numpy(), return_index=True)
    _, clusters = np.unique(found[_CLUSTER].to_numpy()[first_rows], return_inverse=True)
    text = pl.col(_RATING).str.strip_chars()
    truth = text.str.to_lowercase().replace({"true": "1", "false": "0"})
    number = truth.cast(pl.Float64, strict=False).alias(_NUMBER)
    given = found.with_columns(text, number).filter(
        pl.col(_RATING) != "", pl.col(_NUMBER).is_not_nan().fill_null(value=True)
    )
    _refuse_ratings(given, asked)
    labels = given.filter(pl.col(_NUMBER).is_null())[_RATING]
    values = given[_NUMBER].to_numpy()
    if len(labels):
        names = given.select(pl.coalesce(pl.col(_NUMBER).cast(pl.String), _RATING)).to_series()
        _, values = np.unique(names.to_numpy(), return_inverse=True)
    table = np.full((len(units), len(raters)), np.nan)
    columns = [raters.index(rater) for rater in given[_RATER]]
    table[np.searchsorted(units, given[_UNIT].to_numpy()), columns] = values
    return Ratings(
        raters=raters,
        table=table,
        clusters=clusters,
        label=labels[0][:_SHOWN] if len(labels) else None,
        errors=errors,
    )


def _refuse_ratings(given: pl.DataFrame, asked: AgreeOptions) -> None:
    twice = given.filter(pl.struct(_UNIT, _RATER).is_duplicated())
    if twice.height:
        unit = _describe_unit(twice[_UNIT][0], asked)
        raise DataError(f"{twice[_RATER][0]} rates {unit} twice", fix=_NEVER_POOLED)
    endless = given.filter(pl.col(_NUMBER).is_infinite())
    if endless.height:
        raise DataError(
            f"{endless[_RATER][0]}: {endless[_RATING][0]} is not a finite number",
            fix="fix the rating, or leave it empty",
        )


def _list_raters(found: pl.DataFrame, asked: AgreeOptions) -> tuple[str, ...]:
    if nameless := found[_RATER].null_count():
        raise DataError(
            f"{nameless} records have no {asked.rater_field}", fix="name the rater in every record"
        )
    names = found[_RATER].unique().sort().to_list()
    for name in asked.raters if names else ():
        if name not in names:
            raise UsageError(f"--raters: no rating is by {name}", fix=nearest(name, names))
    if len(names) == 1:
        raise UsageError(f"{names[0]} is the only rater", fix="agreement is between two or more")
    return asked.raters or tuple(names)


SCHEMA = "calipers.agree/1"

_LEVELS: tuple[Level, ...] = get_args(Level)

_Measure = Callable[[Floats, Sampling], Estimate]

_OF_ALL: dict[str, tuple[Level, _Measure]] = {
    "percent_agreement": ("nominal", agreement.percent_agreement),
    "cohen_kappa_mean": ("nominal", agreement.mean_cohen_kappa),
    "fleiss_kappa": ("nominal", agreement.fleiss_kappa),
    **{
        f"krippendorff_alpha_{level}": (level, partial(agreement.krippendorff_alpha, level=level))
        for level in _LEVELS
    },
}
_OF_PAIRS: dict[str, tuple[Level, _Measure]] = {
    "percent_agreement": ("nominal", agreement.percent_agreement),
    "cohen_kappa": ("nominal", agreement.cohen_kappa),
    "spearman": ("ordinal", agreement.spearman),
    "kendall_tau_b": ("ordinal", agreement.kendall),
    "pearson": ("interval", agreement.pearson),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterPair:
    """Two raters, and how far they agree on the units that both rated."""

    raters: tuple[str, str]
    measures: Mapping[str, Estimate]

    @property
    def n(self) -> int:
        """The units that both rated."""
        return self.measures["percent_agreement"].n

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one pair."""
        return {"raters": list(self.raters), "n": self.n, **to_plain(self.measures)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement(Printed, Tabular):
    """How far raters agree. Prints as a table, shows as HTML in a notebook."""

    seed: int
    confidence: float
    level: Level
    raters: tuple[str, ...]
    units: int
    clusters: int  # units of one cluster are one observation to every interval
    ratings: int
    errors: int
    measures: Mapping[str, Estimate]
    pairs: tuple[RaterPair, ...]

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 when there was nothing to measure."""
        return EXIT_PASS if self.units else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON, as Python values."""
        return {"schema": SCHEMA, "version": __version__, **to_plain_fields(self)}

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per measure, of all raters and of each pair."""
        every = [
            (self.raters, self.measures),
            *((each.raters, each.measures) for each in self.pairs),
        ]
        for raters, measures in every:
            yield from list_metric_rows({"raters": ", ".join(raters)}, to_plain(measures))


def agree_data(data: Any, asked: AgreeOptions, options: Options) -> Agreement:
    """Return the agreement of the raters in `data`."""
    found = read_ratings(data, asked, options.map)
    raters, confidence = found.raters, options.confidence
    measure = partial(_measure, found=found, level=asked.level, confidence=confidence)
    of_all = {n: m for n, m in _OF_ALL.items() if len(raters) > 2 or n != "cohen_kappa_mean"}  # noqa: PLR2004
    return Agreement(
        raters=raters,
        units=len(found.table),
        clusters=len(set(found.clusters.tolist())),
        ratings=int(np.count_nonzero(~np.isnan(found.table))),
        errors=found.errors,
        measures=measure(of_all, found.table),
        pairs=tuple(
            RaterPair(
                raters=(raters[a], raters[b]), measures=measure(_OF_PAIRS, found.table[:, [a, b]])
            )
            for a, b in combinations(range(len(raters)), 2)
        ),
        level=asked.level,
        confidence=confidence,
        seed=asked.seed,
    )


def _measure(
    measures: Mapping[str, tuple[Level, _Measure]],
    table: Floats,
    found: Ratings,
    level: Level,
    confidence: float,
) -> dict[str, Estimate]:
    """Return the measures that suit the level asked for; labels have no order and no distance."""
    sampling = Sampling(clusters=found.clusters, confidence=confidence)
    no_numbers = Estimate(value=None, n=0, reason=f"ratings are labels, such as {found.label}")
    return {
        name: no_numbers
        if found.label is not None and needed != "nominal"
        else measure(table, sampling)
        for name, (needed, measure) in measures.items()
        if _LEVELS.index(needed) <= _LEVELS.index(level)
    }
