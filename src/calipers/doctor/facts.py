"""The facts that findings are based on: a narrow row per record, of all tasks or a sample of them.

No text of a record is kept but its id: answers, inputs and targets become hashes and lengths. Where
there are more records than `MOST_ROWS`, tasks are drawn by a hash of their id, so that all records
of a task stay together and every system keeps the same tasks.

An input leaks its target where a word such as `Answer:` stands before it. Worked examples in a
prompt have answers in them too, and a yes is soon found by chance, so each input is also searched
for the target of another task: what is found as often is no leak.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from calipers.doctor.result import Finding, Severity
from calipers.engines.features import measure_records
from calipers.engines.plan import FAILED as PLAN_FAILED
from calipers.engines.plan import TRUNCATED as PLAN_TRUNCATED
from calipers.engines.plan import Plan
from calipers.metrics import metric_named
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.answers import normalized_answer, normalized_target
from calipers.records.fields import BadValue
from calipers.records.nested_fields import read_judgment_list

_MARK = re.compile(
    r"(?:\b(?:answer|solution|target|label|gold|ground[ _]truth|expected(?:[ _](?:output|answer))?)"
    r"(?:\s+is|\s*[:=])|####)[\s\"'(\[*$]{0,4}([^\s\"')\]*][^\n]{0,400})",
    re.IGNORECASE,
)
_LEAKS, _LEAKS_OTHER = "leaks", "leaks_other"


def mark_leaks(inputs: pl.Series, targets: pl.Series) -> Iterator[pl.Series]:
    """Yield, per record, whether its input gives its own target away, and whether another's.

    >>> inputs = pl.Series(["1 + 1? Answer: 2", "2 + 3? Answer: 5"])
    >>> [found.to_list() for found in mark_leaks(inputs, pl.Series(["2", "5"]))]
    [[True, True], [False, False]]
    """
    leaks: dict[int, tuple[bool, bool]] = {}
    marked = inputs.str.contains(f"(?i){_MARK.pattern}") if inputs.dtype == pl.String else None
    rows = [] if marked is None else marked.fill_null(value=False).arg_true().to_list()
    if rows and targets.null_count() < len(targets):
        others = _shift_targets(targets)
        for row in rows:
            target = targets[row]
            if target is not None and target.strip():
                tails = [match[1] for match in _MARK.finditer(inputs[row])]
                leaks[row] = _has_target(tails, target), _has_target(tails, others[row])
    for place, name in enumerate((_LEAKS, _LEAKS_OTHER)):
        values = pl.Series(name, [False], dtype=pl.Boolean).new_from_index(0, len(inputs))
        hits = [row for row, places in leaks.items() if places[place]]
        yield values.scatter(hits, values=True) if hits else values


def _shift_targets(targets: pl.Series) -> list[str | None]:
    """Return for each record the next target that differs, from the first again after the last."""
    values = targets.to_list()
    distinct = [value for value in dict.fromkeys(values) if value is not None]
    after = dict(zip(distinct, [*distinct[1:], *distinct[:1]], strict=True))
    return [None if value is None or len(distinct) == 1 else after[value] for value in values]


def _has_target(tails: list[str], target: str | None) -> bool:
    """Return True if any of the texts begins with the target, and with no longer word."""
    if target is None:
        return False
    own = target.strip().casefold()
    return any(
        tail.casefold().startswith(own) and not tail[len(own) : len(own) + 1].isalnum()
        for tail in tails
    )


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
_ANSWERED = (ANSWER, RECORDED)
_ERROR_KIND = r"^([\w ]{1,40}):"
_WORD_END = r"[\p{L}\p{N},;(-]\s*$"  # a letter, a digit, or a mark that something follows


def make_outcome_plan() -> Plan:
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
    system = pl.concat_str("model", "tier", separator=" · ", ignore_nulls=True)
    both = pl.col("_answer").is_not_null() & pl.col("_target").is_not_null()
    longer = pl.col("_answer").str.len_chars() > pl.col("_target").str.len_chars() + LEAST_ANSWER
    beside = longer & pl.col("_answer").str.contains(pl.col("_target"), literal=True)
    rows = measured.select(
        pl.lit(file, dtype=pl.Int32).alias(FILE),
        number.alias(ROW),
        pl.col(ID, CORRECT, PASSED, *NUMBERS),
        pl.when(system != "").then(system).otherwise(pl.lit(name)).alias(SYSTEM),
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
        judged = [] if text is None else read_judgment_list(text)
    except BadValue:
        return None
    scores = [score for judgment in judged if (score := _read_score(judgment)) is not None]
    return sum(scores) / len(scores) if scores else None


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
        """Return True if records name their tasks."""
        return bool(self.rows[ID].is_not_null().any())

    @cached_property
    def systems(self) -> tuple[str, ...]:
        """The systems, in order."""
        return tuple(sorted(self.rows[SYSTEM].unique().to_list()))

    def find_outcome(self) -> Outcomes | None:
        """Return the outcome to compare: correct, passed, or a share; None if there is none."""
        for metric, column in _METRICS.items():
            rows = self.ended.drop_nulls(column)
            if column == CORRECT and not any(self.rows[field].count() for field in _ANSWERED):
                continue  # nothing was answered: there is no outcome yet
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
        places: dict[str, None] = {}
        for task, file, row in rows.select(ID, FILE, ROW).iter_rows():
            where = f"row {row}" if len(self.files) == 1 else f"{Path(self.files[file]).name}:{row}"
            places.setdefault(where if task is None else task)
            if len(places) == _EXAMPLES:
                break
        return tuple(places)

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
