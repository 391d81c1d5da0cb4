"""The built-in rubrics, made from the declarations of their metrics."""

from __future__ import annotations

from collections.abc import Mapping

from calipers.judges.rubrics import LIMIT, Criterion, Reads, Rubric
from calipers.metrics.judged.rubrics import HIGHEST, LOWEST, RUBRICS, JudgedRubric


def _make_rubric(of: JudgedRubric) -> Rubric:
    return Rubric(
        name=of.name,
        question=of.question,
        reads=[
            Reads(name=name, field=field, limit=None if field == "answer" else LIMIT)
            for name, field in of.reads.items()
        ],
        criteria=[
            Criterion(name=name, says=says, weight=weight)
            for name, (weight, says) in of.criteria.items()
        ],
        lowest=LOWEST,
        highest=HIGHEST,
        divide_by=of.over,
    )


BUILT_IN: Mapping[str, Rubric] = {rubric.name: _make_rubric(rubric) for rubric in RUBRICS}
