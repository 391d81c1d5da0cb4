"""Judged quality of reviews and plans (P, tier 2), from the judgments in the records.

Criteria are scored from 1 to 5, averaged over the judges, weighted and divided as P does, so that
the result lies in [.2, 1]. A score outside 1 to 5 is a bad judgment: the row has no value then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import polars as pl

from calipers.metrics.declare.columns import declare_part
from calipers.metrics.declare.declaration import Feature, Metric, Totals, add_up
from calipers.metrics.declare.means import count_true, declare_sums, mean
from calipers.records.judgment_shape import read_list
from calipers.support.quick_dataclasses import dataclass

LOWEST, HIGHEST = 1, 5
_TWO_OF_FOUR = 0.5  # steps from 1 to 5 that a judge's mean over the criteria may move by
_BAD = "bad"


@dataclass(frozen=True, slots=True)
class JudgedRubric:
    """What a judge is asked about which texts, and how its scores of criteria are combined."""

    name: str
    says: str
    spec: str
    question: str
    reads: Mapping[str, str]  # what a text is called in the request, and its field
    criteria: Mapping[str, tuple[float, str]]  # weights, and descriptions for the judge
    over: float  # what the weighted sum is divided by

    @property
    def weights(self) -> dict[str, float]:
        """What each criterion weighs."""
        return {name: weight for name, (weight, _) in self.criteria.items()}

    def score(self, criteria: Mapping[str, Sequence[Any]]) -> float | None:
        """Return the score from all judges' scores of each criterion; None if one has none."""
        if not all(criteria.get(name) for name in self.weights):
            return None
        weighted = sum(fmean(criteria[name]) * weight for name, weight in self.weights.items())
        return weighted / self.over

    @property
    def formula(self) -> str:
        """As the catalogue shows it."""
        alike = len(set(self.weights.values())) == 1
        parts = (name if alike else f"{weight:g} · {name}" for name, weight in self.weights.items())
        return f"mean(({' + '.join(parts)}) / {self.over:g}), each criterion the mean of the judges"


RUBRICS = (
    JudgedRubric(
        name="technical_accuracy",
        says="How right a review is about its paper, by judges.",
        spec="P 2.1",
        question="Evaluate the technical accuracy of this review of a paper.",
        reads={"paper": "input", "review": "answer"},
        criteria={
            "factual_correctness": (0.5, "Claims supported by paper content"),
            "methodology_understanding": (0.3, "Proper grasp of experimental approach"),
            "domain_knowledge": (0.2, "Appropriate use of technical terminology"),
        },
        over=5.0,
    ),
    JudgedRubric(
        name="constructiveness",
        says="How far a review helps its authors, by judges.",
        spec="P 2.2",
        question="Evaluate the constructiveness of this academic review.",
        reads={"review": "answer"},
        criteria={
            "actionable_feedback": (1.0, "Specific improvement suggestions"),
            "balanced_critique": (1.0, "Both strengths and weaknesses addressed"),
            "improvement_guidance": (1.0, "Clear next steps for authors"),
        },
        over=15.0,
    ),
    JudgedRubric(
        name="planning_rationality",
        says="How sensibly an agent planned and decided, by judges.",
        spec="P 2.3",
        question="Evaluate the planning rationality of this agent execution.",
        reads={"execution summary": "trace"},
        criteria={
            "logical_flow": (0.3, "Coherent step-by-step progression"),
            "decision_quality": (0.5, "Appropriate choices at decision points"),
            "resource_efficiency": (0.2, "Optimal use of available tools/agents"),
        },
        over=5.0,
    ),
)

_JUDGED = pl.Struct({**{rubric.name: pl.Float64() for rubric in RUBRICS}, _BAD: pl.Boolean()})


def _score_rows(texts: pl.Series) -> pl.Series:
    rows = [None if text is None else _score_row(text) for text in texts]
    return pl.Series(texts.name, rows, dtype=_JUDGED)


def _score_row(text: str) -> dict[str, float | bool | None]:
    """Return every rubric's score of one row; `bad` if a score is outside 1 to 5."""
    criteria: dict[str, list[Any]] = {}
    for judgment in read_list(text):
        scores = judgment.get("scores")
        for name, score in scores.items() if isinstance(scores, dict) else ():
            if score is not None:
                criteria.setdefault(name, []).append(score)
    bad = {name for name, scores in criteria.items() if not all(map(_is_score, scores))}
    found = {
        rubric.name: None if bad.intersection(rubric.weights) else rubric.score(criteria)
        for rubric in RUBRICS
    }
    asked_for = {name for rubric in RUBRICS for name in rubric.weights}
    return {**found, _BAD: bool(bad & asked_for)}


def _is_score(score: Any) -> bool:
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    return is_number and LOWEST <= score <= HIGHEST


_by_judges = Feature(
    "_judged",
    ("judgments",),
    lambda _: pl.col("judgments").map_batches(_score_rows, return_dtype=_JUDGED),
    _JUDGED,
    stored=False,
)


SCORES = {rubric.name: declare_part(rubric.name, _by_judges, rubric.name) for rubric in RUBRICS}
_bad_judgment = declare_part("_bad_judgment", _by_judges, _BAD)


def _declare_metric(rubric: JudgedRubric) -> Metric:
    score = SCORES[rubric.name]
    *first, last = rubric.weights
    return mean(
        score,
        says=rubric.says,
        formula=rubric.formula,
        spec=rubric.spec,
        needs=("judgments",),
        nulls="a row is left out where a criterion has no score, or one outside 1 to 5",
        range=(0.2, 1),
        better="higher",
        empty=f"no record has judgments with scores from {LOWEST} to {HIGHEST} of "
        f"{', '.join(first)} and {last}",
        aggregate=declare_sums(score, _bad_judgment, judgments__bad=count_true(_bad_judgment)),
        optional="unless asked for",
        step=_TWO_OF_FOUR,
    )


JUDGED = tuple(map(_declare_metric, RUBRICS))


def note_bad_scores(groups: Iterable[Totals]) -> Iterator[str]:
    """Yield how many rows have no value because of a bad score."""
    if bad := add_up(groups, "judgments__bad"):
        yield (
            f"{bad} record{' has' if bad == 1 else 's have'} a judge's score outside {LOWEST} to "
            f"{HIGHEST}: metrics that use the score are null there"
        )
