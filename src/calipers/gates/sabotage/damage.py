"""The kinds of sabotage: where records can be broken (`find`), and how (`damage`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

import polars as pl

from calipers.gates.rules.scenario_rules import RequiredScenarios
from calipers.gates.sabotage.doses import MARKS, RAN, RIGHT, Dose, MarkedRecords, Place
from calipers.records.batch import select_column
from calipers.records.fields import load_json

SHARES = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
FACTORS = (1.5, 2.0, 5.0, 10.0)
COPIES = (0.1, 1.0, 10.0)  # of one row, as a share of all rows
FEW = (0.1, 0.5, 1.0)
WHOLE = (1.0,)
MOST_NAMES = 12  # categories, systems or scenarios that are each broken on their own
MOST_COPIES = 1_000_000
WRONG = "(wrong on purpose)"

_TIMES = ("latency_ms", "duration_seconds")
_TOKENS = ("prompt_tokens", "completion_tokens", "reasoning_tokens")
_HAS_OWN_KIND = ("target", "violations", "category", *_TIMES, *_TOKENS, "cost_usd")

Damage = Callable[[MarkedRecords, Dose], pl.DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class SabotageKind:
    """A kind of sabotage."""

    name: str
    what: str  # happens to the records, in words
    find: Callable[[MarkedRecords], Iterable[Place]]
    damage: Damage
    doses: tuple[float, ...] = SHARES
    unit: Literal["share", "times", "copies"] = "share"
    baseline: Literal["kept", "swapped", "dropped"] = "kept"

    def list_hits(self, place: Place) -> Iterator[Dose]:
        """Yield the doses; of few rows, the shares that can be broken, each once."""
        if self.unit != "share":
            yield from (Dose(dose=dose, rows=place.rows, place=place) for dose in self.doses)
            return
        counts = dict.fromkeys(ceil(dose * place.size) for dose in self.doses)
        for count in counts:
            yield Dose(dose=count / place.size, rows=place.take(count), place=place)


# Where records can be broken.


def _find_right(records: MarkedRecords, which: pl.Expr | None = None) -> Iterator[Place]:
    """Yield the records that are right, or not known to be wrong."""
    which = pl.lit(value=True) if which is None else which
    if rows := records.find_rows(pl.col(RIGHT) & which):
        yield Place(rows=rows, scope=records.whole.filter(pl.col(RAN) & which).height)


def _find_answers(records: MarkedRecords) -> Iterator[Place]:
    """Yield all records that are right, those of each category, and those of each system."""
    if not records.columns & {*_FLIPPED, *records.own_fields}:
        return
    yield from _find_right(records)
    for name in ("category", *records.systems):
        values = records.list_values(name)
        kind, word = ("category", "in") if name == "category" else ("system", "of")
        for value in values[:MOST_NAMES] if len(values) > 1 else ():
            for place in _find_right(records, select_column(name) == value):
                yield replace(place, suffix=f" {word} {value}", of={kind: value})


def _find_baseline(records: MarkedRecords) -> Iterator[Place]:
    if records.question.given.recorded is not None:
        yield from _find_right(records)


def _find_filled(*names: str) -> Callable[[MarkedRecords], Iterator[Place]]:
    """Return what yields the records with a value in one of these fields."""

    def find(records: MarkedRecords) -> Iterator[Place]:
        filled = [select_column(name).is_not_null() for name in names if name in records.columns]
        if filled and (rows := records.find_rows(pl.col(RAN) & pl.any_horizontal(filled))):
            yield Place(rows=rows)

    return find


def _find_used(*names: str) -> Callable[[MarkedRecords], Iterator[Place]]:
    """Return what yields the records with a value in fields that a rule is about."""

    def find(records: MarkedRecords) -> Iterator[Place]:
        if records.used.intersection(names):
            yield from _find_filled(*names)(records)

    return find


def _find_targets(records: MarkedRecords) -> Iterator[Place]:
    """Yield the records that are compared with a target: no `correct` is recorded in them."""
    if "target" in records.columns:
        which = pl.col(RAN) & pl.col("target").is_not_null()
        if "correct" in records.columns:
            which &= pl.col("correct").is_null()
        if rows := records.find_rows(which):
            yield Place(rows=rows)


def _find_categories(records: MarkedRecords) -> Iterator[Place]:
    """Yield the records of each category, task by task; one alone is all of them."""
    values = records.list_values("category")
    for value in values[:MOST_NAMES] if len(values) > 1 else ():
        rows, ends = records.find_tasks(pl.col("category") == value)
        of = {"category": value, "field": "category"}
        yield Place(rows=rows, ends=ends, suffix=f" {value}", of=of)


def _find_named_categories(records: MarkedRecords) -> Iterator[Place]:
    """Yield the categories that a rule names, or that the gate groups by: others have no rule."""
    given, by = records.question.given, records.question.options.by
    named = {c for rule in records.question.policy.rules for c in rule.list_categories(given)}
    for place in _find_categories(records):
        if "category" in by or place.of["category"] in named:
            yield place


def _find_systems(records: MarkedRecords) -> Iterator[Place]:
    """Yield the records of each system, where there are several or the gate groups by them."""
    for name in records.systems:
        values = records.list_values(name)
        for value in values[:MOST_NAMES] if len(values) > 1 or records.question.options.by else ():
            rows = records.find_rows(select_column(name) == value)
            yield Place(rows=rows, suffix=f" {value}", of={"system": value, "field": name})


def _find_required(records: MarkedRecords) -> Iterator[Place]:
    required = records.question.policy.find(RequiredScenarios)
    named = () if required is None or "id" not in records.columns else required.ids
    for name in named[:MOST_NAMES]:
        if rows := records.find_rows(pl.col("id").cast(pl.String) == name):
            yield Place(rows=rows, suffix=f" {name}", of={"scenario": name, "field": "id"})


def _find_fields(records: MarkedRecords) -> Iterator[Place]:
    """Yield, for each field that a blocking rule needs, the records that have it."""
    for name in records.needed:
        if name not in _HAS_OWN_KIND:
            for place in _find_filled(name)(records):
                yield replace(place, suffix=f" {name}", of={"field": name})


def _find_all(records: MarkedRecords) -> Iterator[Place]:
    if rows := records.find_rows(pl.col(RAN)):
        yield Place(rows=rows)


def _find_failing_first(records: MarkedRecords) -> Iterator[Place]:
    if rows := records.find_rows(pl.col(RAN), failing_first=True):
        yield Place(rows=rows)


def _find_one_right(records: MarkedRecords) -> Iterator[Place]:
    if rows := records.find_rows(pl.col(RIGHT)):
        yield Place(rows=rows[:1])


def _find_violations(records: MarkedRecords) -> Iterator[Place]:
    for place in _find_filled("violations")(records):
        if rows := records.find_rows(pl.col(RAN) & (pl.col("violations") != "[]")):
            yield replace(place, rows=rows)


# How records are broken.

_WRONG_VALUES: Mapping[str, Any] = {
    "correct": False,
    "passed": False,
    "answer": WRONG,
    "observed_behaviors": "[]",
    "impl_rate": 0.0,
}
_FLIPPED = (*_WRONG_VALUES, "expected_behaviors", "predicted", "judgments")


def _change(frame: pl.DataFrame, rows: pl.Series, changes: Mapping[str, Any]) -> pl.DataFrame:
    """Return the records with other values in some rows, where they have any."""
    return frame.with_columns(
        pl.when(pl.lit(rows) & select_column(name).is_not_null())
        .then(change if isinstance(change, pl.Expr) else pl.lit(change))
        .otherwise(select_column(name))
        .alias(name)
        for name, change in changes.items()
        if name in frame.columns
    )


def _make_wrong(records: MarkedRecords, hit: Dose) -> pl.DataFrame:
    """Return the records with wrong answers, seen as such by whoever judged them."""
    return _judge_rows(records, _answer_wrongly(records, hit), hit, good=False)


def _make_judges_generous(records: MarkedRecords, hit: Dose) -> pl.DataFrame:
    return _judge_rows(records, _answer_wrongly(records, hit), hit, good=True)


def _answer_wrongly(records: MarkedRecords, hit: Dose) -> pl.DataFrame:
    rows = hit.mark(records.frame)
    frame = _change(records.frame, rows, {**_WRONG_VALUES, **records.own_fields})
    kinds = frame.schema.get("predicted"), frame.schema.get("actual")
    if {"predicted", "actual"} <= records.columns and kinds[0] == kinds[1]:
        labels = sorted({*frame["predicted"].drop_nulls(), *frame["actual"].drop_nulls()}, key=str)
        other = dict(zip(labels, (*labels[1:], *labels[:1]), strict=True))
        wrong = [None if label is None else other[label] for label in frame["predicted"]]
        frame = _change(
            frame, rows, {"predicted": pl.Series(wrong, dtype=frame["predicted"].dtype)}
        )
    if "expected_behaviors" in records.columns:  # where nothing is expected, only violations fail
        violated = pl.lit(rows) & (pl.col("expected_behaviors") == "[]")
        stated = pl.col("violations") if "violations" in frame.columns else pl.lit(None, pl.String)
        violations = pl.when(violated).then(pl.lit(json.dumps([WRONG]))).otherwise(stated)
        frame = frame.with_columns(violations.alias("violations"))
    return frame


def _judge_rows(
    records: MarkedRecords, frame: pl.DataFrame, hit: Dose, *, good: bool
) -> pl.DataFrame:
    """Return records with judges who give some rows their best marks, or their worst."""
    if "judgments" not in frame.columns:
        return frame
    texts, marks = frame["judgments"].to_list(), records.marks_given
    for row in hit.rows:
        if (judged := records.judgments[row]) is not None:
            texts[row] = json.dumps(_mark_anew(judged, marks, good=good))
    return frame.with_columns(pl.Series("judgments", texts, dtype=pl.String))


def _mark_anew(judgments: Any, marks: Mapping[str, tuple[float, float]], *, good: bool) -> Any:
    """Return judgments with the best, or the worst, verdict and marks."""

    def change(value: Any, name: str, *, is_mark: bool) -> Any:
        if isinstance(value, Mapping):
            return {
                key: change(inner, key, is_mark=is_mark or key in MARKS)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [change(inner, name, is_mark=is_mark) for inner in value]
        if name == "passed" and isinstance(value, bool):
            return good
        if is_mark and isinstance(value, int | float) and not isinstance(value, bool):
            return marks[name][1 if good else 0]
        return value

    return change(judgments, "", is_mark=False)


def _call_wrong_tools(records: MarkedRecords, hit: Dose) -> pl.DataFrame:
    texts = records.frame["trace"].to_list()
    for row in hit.rows:
        trace = load_json(texts[row])
        calls = trace.get("tool_calls") if isinstance(trace, dict) else None
        for call in calls or ():
            if isinstance(call, dict) and "tool_name" in call:
                call["tool_name"] = WRONG
        texts[row] = json.dumps(trace)
    return records.frame.with_columns(pl.Series("trace", texts, dtype=pl.String))


def _remove_values(name: str) -> Damage:
    """Return what takes the values of a field away."""
    return lambda records, hit: _change(
        records.frame, hit.mark(records.frame), {name: pl.lit(None)}
    )


def _rename_field(records: MarkedRecords, hit: Dose) -> pl.DataFrame:
    name, rows = hit.place.of["field"], hit.mark(records.frame)
    moved = pl.when(pl.lit(rows)).then(select_column(name)).alias(f"{name}_renamed")
    return _change(records.frame.with_columns(moved), rows, {name: pl.lit(None)})


def _rename_value(records: MarkedRecords, hit: Dose) -> pl.DataFrame:
    """Return the records with another category, system or id."""
    name = hit.place.of["field"]
    text = select_column(name).cast(pl.String)
    renamed = {name: pl.concat_str(pl.lit("renamed "), select_column(name))}
    return _change(records.frame.with_columns(text), hit.mark(records.frame), renamed)


def _remove(records: MarkedRecords, hit: Dose) -> pl.DataFrame:
    return records.frame.filter(~hit.mark(records.frame))


def _repeat_rows(records: MarkedRecords, hit: Dose) -> pl.DataFrame:
    return pl.concat((records.frame, records.frame.filter(hit.mark(records.frame))))


def _repeat_one(records: MarkedRecords, hit: Dose) -> pl.DataFrame:
    copies = min(max(1, round(hit.dose * records.frame.height)), MOST_COPIES)
    return pl.concat((records.frame, records.frame[[hit.rows[0]] * copies]))


def _fail_calls(records: MarkedRecords, hit: Dose) -> pl.DataFrame:
    stated = pl.col("error") if "error" in records.frame.columns else pl.lit(None, pl.String)
    failed = pl.when(pl.lit(hit.mark(records.frame))).then(pl.lit(f"timeout: {WRONG}"))
    return records.frame.with_columns(failed.otherwise(stated).alias("error"))


def _raise_values(*names: str) -> Damage:
    """Return what multiplies fields by the dose."""

    def damage(records: MarkedRecords, hit: Dose) -> pl.DataFrame:
        known = [name for name in names if name in records.columns]
        return records.frame.with_columns(select_column(name) * hit.dose for name in known)

    return damage


KINDS: tuple[SabotageKind, ...] = (
    SabotageKind(
        name="flip answers",
        what="right answers become wrong",
        find=_find_answers,
        damage=_make_wrong,
    ),
    SabotageKind(
        name="choose wrong tools",
        what="every tool that was called is another one",
        find=_find_used("trace"),
        damage=_call_wrong_tools,
    ),
    SabotageKind(
        name="drop targets",
        what="there is no target to compare the answer with",
        find=_find_targets,
        damage=_remove_values("target"),
    ),
    SabotageKind(
        name="rename field",
        what="a field that a blocking rule needs has another name",
        find=_find_fields,
        damage=_rename_field,
    ),
    SabotageKind(
        name="drop violations",
        what="violations are no longer reported",
        find=_find_violations,
        damage=_remove_values("violations"),
    ),
    SabotageKind(
        name="make judges generous",
        what="answers become wrong, and the judges give them their best marks",
        find=_find_filled("judgments"),
        damage=_make_judges_generous,
    ),
    SabotageKind(
        name="turn failures into errors",
        what="records that fail, and then others, become failed calls",
        find=_find_failing_first,
        damage=_fail_calls,
    ),
    SabotageKind(
        name="delete failures",
        what="records that fail, and then others, are gone",
        find=_find_failing_first,
        damage=_remove,
    ),
    SabotageKind(
        name="repeat rows",
        what="rows are there twice; at full dose the whole file is",
        find=_find_all,
        damage=_repeat_rows,
    ),
    SabotageKind(
        name="repeat one row",
        what="one right row is there many times",
        find=_find_one_right,
        damage=_repeat_one,
        doses=COPIES,
        unit="copies",
    ),
    SabotageKind(
        name="remove category",
        what="records of a category are gone",
        find=_find_categories,
        damage=_remove,
        doses=FEW,
    ),
    SabotageKind(
        name="rename category",
        what="records of a category are of another one",
        find=_find_named_categories,
        damage=_rename_value,
        doses=FEW,
    ),
    SabotageKind(
        name="remove system",
        what="records of a system are gone",
        find=_find_systems,
        damage=_remove,
        doses=FEW,
    ),
    SabotageKind(
        name="rename system",
        what="records of a system are of another one",
        find=_find_systems,
        damage=_rename_value,
        doses=FEW,
    ),
    SabotageKind(
        name="fail scenario",
        what="runs of a required scenario go wrong",
        find=_find_required,
        damage=_make_wrong,
    ),
    SabotageKind(
        name="remove scenario",
        what="a required scenario is gone",
        find=_find_required,
        damage=_remove,
        doses=WHOLE,
    ),
    SabotageKind(
        name="rename scenario",
        what="a required scenario has another id",
        find=_find_required,
        damage=_rename_value,
        doses=WHOLE,
    ),
    SabotageKind(
        name="slow down",
        what="every call takes longer",
        find=_find_filled(*_TIMES),
        damage=_raise_values(*_TIMES),
        doses=FACTORS,
        unit="times",
    ),
    SabotageKind(
        name="raise costs",
        what="every call costs more",
        find=_find_used("cost_usd"),
        damage=_raise_values("cost_usd"),
        doses=FACTORS,
        unit="times",
    ),
    SabotageKind(
        name="use more tokens",
        what="every call uses more tokens",
        find=_find_used(*_TOKENS),
        damage=_raise_values(*_TOKENS),
        doses=FACTORS,
        unit="times",
    ),
    SabotageKind(
        name="swap the baseline",
        what="answers become wrong, and the baseline is recorded from them",
        find=_find_baseline,
        damage=_make_wrong,
        baseline="swapped",
    ),
    SabotageKind(
        name="drop the baseline",
        what="answers become wrong, and no baseline is given",
        find=_find_baseline,
        damage=_make_wrong,
        baseline="dropped",
    ),
)
