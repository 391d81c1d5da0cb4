"""The facts that findings are based on: a narrow row per record, of all tasks or a sample of them.

No text of a record is kept but its id: answers, inputs and targets become hashes and lengths. Where
there are more records than `MOST_ROWS`, tasks are drawn by a hash of their id, so that all records
of a task stay together and every system keeps the same tasks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from calipers.comparisons.doctor.leaks import mark_leaks
from calipers.comparisons.doctor.results import Finding, Severity
from calipers.engines.measuring import measure_records
from calipers.engines.plan import FAILED as PLAN_FAILED
from calipers.engines.plan import TRUNCATED as PLAN_TRUNCATED
from calipers.engines.plan import Plan
from calipers.metrics import metric_named
from calipers.metrics.answers.normalize import normalized_answer, normalized_target
from calipers.metrics.declare.settings import Settings
from calipers.records.fields import BadValue
from calipers.records.judgment_shape import read_list
from calipers.support.quick_dataclasses import dataclass

MOST_ROWS = 500_000
LEAST_ANSWER = 3  # characters beside the target that make an answer more than the target

ID, TASK, SYSTEM, RUN, FILE, ROW = "id", "task", "system", "run", "file", "row"
FAILED, TRUNCATED, COPY = "failed", "truncated", "copy"
CORRECT, RECORDED, EQUAL, HOLDS, PASSED = "correct", "recorded", "equal", "holds", "passed"
IMPL = "impl_rate"
ANSWER, TARGET, INPUT = "answer", "target", "input"  # hashes
CHARS, MID_WORD, COT_CHARS, COT_MID_WORD = "chars", "mid_word", "cot_chars", "cot_mid_word"
LEAKS, LEAKS_OTHER = "leaks", "leaks_other"
CONFIDENCE, COST, PROMPT, COMPLETION, LATENCY, DURATION = NUMBERS = (
    *("prob_correct", "cost_usd", "prompt_tokens", "completion_tokens", "latency_ms"),
    "duration_seconds",
)
SCORE, ERROR, OUTCOME = "score", "error", "outcome"

NEEDED = (
    *("id", "model", "tier", "run", "error", "finish_reason", "input", "target", "answer", "cot"),
    *(*NUMBERS, "judgments"),
)
_EXAMPLES = 3
_METRICS = {"accuracy": CORRECT, "pass_rate": PASSED, "impl_rate": IMPL}
_ERROR_KIND = r"^([\w ]{1,40}):"
_WORD_END = r"[\p{L}\p{N},;(-]\s*$"  # a letter, a digit, or a mark that something follows


def make_plan() -> Plan:
    """Return the plan that says whether each record is right or passed, as `score` does."""
    return Plan(tuple(map(metric_named, _METRICS)), (), Settings())


def narrow(
    records: pl.DataFrame, plan: Plan, *, file: int, first_row: int, name: str
) -> pl.DataFrame:
    """Return the facts of each record of a batch, which has the columns that the plan wants."""
    measured = measure_records(plan, records).with_columns(
        normalized_answer.expression(plan.settings).alias("_answer"),
        normalized_target.expression(plan.settings).alias("_target"),
    )
    number = pl.int_range(first_row, first_row + pl.len(), dtype=pl.Int64)
    told = pl.concat_str("model", "tier", separator=" · ", ignore_nulls=True)
    both = pl.col("_answer").is_not_null() & pl.col("_target").is_not_null()
    longer = pl.col("_answer").str.len_chars() > pl.col("_target").str.len_chars() + LEAST_ANSWER
    beside = longer & pl.col("_answer").str.contains(pl.col("_target"), literal=True)
    rows = measured.select(
        pl.lit(file, dtype=pl.Int32).alias(FILE),
        number.alias(ROW),
        pl.col(ID, CORRECT, PASSED, *NUMBERS),
        pl.when(told != "").then(told).otherwise(pl.lit(name)).alias(SYSTEM),
        pl.col("run").cast(pl.String).alias(RUN),
        pl.col(PLAN_FAILED).alias(FAILED),
        pl.when(PLAN_FAILED)
        .then(pl.coalesce(pl.col("error").str.extract(_ERROR_KIND), pl.lit("other")))
        .alias(ERROR),
        pl.col(PLAN_TRUNCATED).alias(TRUNCATED),
        pl.col("impl_rate").cast(pl.Float64).alias(IMPL),
        pl.when(both).then(pl.col("_answer") == pl.col("_target")).alias(EQUAL),
        (both & beside).fill_null(value=False).alias(HOLDS),
        pl.col("_answer").hash().alias(ANSWER),
        pl.col("_target").hash().alias(TARGET),
        pl.col("input").hash().alias(INPUT),
        *_measure_end("answer", CHARS, MID_WORD),
        *_measure_end("cot", COT_CHARS, COT_MID_WORD),
    ).collect(engine="in-memory")
    # A hash of a null is a number too: what is not there has none.
    rows = rows.with_columns(
        pl.when(records[theirs].is_not_null()).then(pl.col(own))
        for theirs, own in (("answer", ANSWER), ("target", TARGET), ("input", INPUT))
    )
    task = pl.coalesce(pl.col(ID), pl.format("{}:{}", FILE, ROW)).hash(seed=1)
    return rows.with_columns(
        task.alias(TASK),
        _hold_target(rows, records["answer"], records["target"]),
        records["correct"].alias(RECORDED),
        records.hash_rows(seed=2).alias(COPY),
        _judge_scores(records["judgments"]).alias(SCORE),
        *mark_leaks(records["input"], records["target"]),
    )


def _hold_target(rows: pl.DataFrame, answers: pl.Series, targets: pl.Series) -> pl.Series:
    """Return which of the answers that contain the target hold it as a word: 18 is not in 180."""
    places = rows[HOLDS].arg_true().to_list()
    no = [place for place in places if not _has_word(answers[place], targets[place])]
    return rows[HOLDS].scatter(no, values=False) if no else rows[HOLDS]


def _has_word(answer: str, target: str) -> bool:
    word = re.escape(target.strip().casefold())
    return re.search(rf"(?<![\w.,]){word}(?!\w)", answer.casefold()) is not None


def _measure_end(field: str, chars: str, mid_word: str) -> tuple[pl.Expr, pl.Expr]:
    """Return how long a text is, and whether it ends in the middle of a sentence."""
    text = pl.col(field).str
    return text.len_chars().cast(pl.Int64).alias(chars), text.contains(_WORD_END).alias(mid_word)


def _judge_scores(judgments: pl.Series) -> pl.Series:
    """Return the mean score that judges give each record, or the share of them that pass it."""
    if judgments.null_count() == len(judgments):
        return pl.Series([None], dtype=pl.Float64).new_from_index(0, len(judgments))
    return pl.Series(map(_average_scores, judgments), dtype=pl.Float64)


def _average_scores(text: str | None) -> float | None:
    try:
        judged = [] if text is None else read_list(text)
    except BadValue:
        return None
    found = [score for each in judged if (score := _read_score(each)) is not None]
    return sum(found) / len(found) if found else None


def _read_score(judgment: Mapping[str, Any]) -> float | None:
    for key in ("weighted_score", "overall_score", "score", "passed"):
        value = judgment.get(key)
        if isinstance(value, int | float):
            return float(value)
    return None


class Collected:
    """Collects facts; once there are too many, those of a sample of tasks."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._most = most
        self._parts: list[pl.DataFrame] = []
        self._rows = 0
        self.halvings = 0

    def add(self, rows: pl.DataFrame) -> None:
        """Keep the rows of sampled tasks, and halve the sample where that makes too many."""
        self._keep(rows)
        while self._rows > self._most:
            self.halvings += 1
            parts, self._parts, self._rows = self._parts, [], 0
            for part in parts:
                self._keep(part)

    def _keep(self, rows: pl.DataFrame) -> None:
        kept = rows.filter(pl.col(TASK) % 2**self.halvings == 0) if self.halvings else rows
        self._parts.append(kept)
        self._rows += kept.height

    def frame(self) -> pl.DataFrame:
        """Return all rows that were kept."""
        return pl.concat(self._parts) if self._parts else pl.DataFrame()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """The records that have an outcome, as a number, and the metric that is its mean."""

    metric: str
    rows: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with rows that cannot be read, how many there are, and where."""

    problem: str  # of the first
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of all files, and what findings share."""

    rows: pl.DataFrame
    files: tuple[str, ...]
    bad: tuple[Problem, ...] = ()
    unfinished: tuple[tuple[str, str], ...] = ()  # files, and what each lacks
    share: float = 1.0  # of the tasks that are in the rows

    @cached_property
    def ended(self) -> pl.DataFrame:
        """The records whose call did not fail."""
        return self.rows.filter(~pl.col(FAILED))

    @cached_property
    def has_ids(self) -> bool:
        """Say whether records name their tasks."""
        return bool(self.rows[ID].is_not_null().any())

    @cached_property
    def systems(self) -> tuple[str, ...]:
        """The systems, in order."""
        return tuple(sorted(self.rows[SYSTEM].unique().to_list()))

    def find_outcome(self) -> Outcomes | None:
        """Return the outcome to compare: correct, passed, or a share; None if there is none."""
        for metric, column in _METRICS.items():
            rows = self.ended.drop_nulls(column)
            if rows.height:
                value = pl.col(column).cast(pl.Float64).alias(OUTCOME)
                return Outcomes(metric=metric, rows=rows.with_columns(value))
        return None

    def by_system(self) -> Mapping[str, pl.DataFrame]:
        """Return the ended records of each system."""
        parts = self.ended.partition_by(SYSTEM, as_dict=True, maintain_order=True)
        return {str(name): parts[name,] for (name,) in sorted(parts)}

    def named(self, system: str) -> str | None:
        """Return a system's name, or None where there is only one."""
        return system if len(self.systems) > 1 else None

    def examples(self, rows: pl.DataFrame) -> tuple[str, ...]:
        """Return the ids of the first tasks among some rows, or their places in the files."""
        found: dict[str, None] = {}
        for task, file, row in rows.select(ID, FILE, ROW).iter_rows():
            where = f"row {row}" if len(self.files) == 1 else f"{Path(self.files[file]).name}:{row}"
            found.setdefault(where if task is None else task)
            if len(found) == _EXAMPLES:
                break
        return tuple(found)

    def make_finding(
        self,
        kind: str,
        severity: Severity,
        says: str,
        *,
        fix: str,
        rows: pl.DataFrame,
        of: pl.DataFrame,
        system: str | None = None,
    ) -> Finding:
        """Return a finding about some of the rows, with the first of them as examples."""
        return Finding(
            kind=kind,
            severity=severity,
            says=says,
            fix=fix,
            count=rows.height,
            of=of.height,
            system=None if system is None else self.named(system),
            examples=self.examples(rows),
        )
