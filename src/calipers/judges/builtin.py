"""The three rubrics of specs/003, tier 2; the metrics declare the weights of their criteria."""

from __future__ import annotations

from collections.abc import Mapping

from calipers.judges.rubrics import Criterion, Reads, Rubric
from calipers.metrics.judged import rubrics as judged

_REVIEW = Reads(name="review", field="answer", limit=None)


def _make_rubric(
    of: judged.JudgedRubric, question: str, reads: list[Reads], says: Mapping[str, str]
) -> Rubric:
    return Rubric(
        name=of.name,
        question=question,
        reads=reads,
        criteria=[
            Criterion(name=name, says=says[name], weight=weight)
            for name, weight in of.weights.items()
        ],
        lowest=judged.LOWEST,
        highest=judged.HIGHEST,
        divide_by=of.over,
    )


_ALL = (
    _make_rubric(
        judged.technical_accuracy,
        "Evaluate the technical accuracy of this review of a paper.",
        [Reads(name="paper", field="input"), _REVIEW],
        {
            "factual_correctness": "Claims supported by paper content",
            "methodology_understanding": "Proper grasp of experimental approach",
            "domain_knowledge": "Appropriate use of technical terminology",
        },
    ),
    _make_rubric(
        judged.constructiveness,
        "Evaluate the constructiveness of this academic review.",
        [_REVIEW],
        {
            "actionable_feedback": "Specific improvement suggestions",
            "balanced_critique": "Both strengths and weaknesses addressed",
            "improvement_guidance": "Clear next steps for authors",
        },
    ),
    _make_rubric(
        judged.planning_rationality,
        "Evaluate the planning rationality of this agent execution.",
        [Reads(name="execution summary", field="trace")],
        {
            "logical_flow": "Coherent step-by-step progression",
            "decision_quality": "Appropriate choices at decision points",
            "resource_efficiency": "Optimal use of available tools/agents",
        },
    ),
)

BUILT_IN: Mapping[str, Rubric] = {rubric.name: rubric for rubric in _ALL}
