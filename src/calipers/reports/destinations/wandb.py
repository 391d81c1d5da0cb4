"""A score in Weights & Biases: a run per group, with its values, the table and the page."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from calipers.reports.destinations.values import (
    describe_group,
    describe_score,
    list_values,
    make_page,
    name_run,
)

if TYPE_CHECKING:
    from calipers.scores.results import Score

_PROJECT = "calipers"


def send(score: Score, where: str | None) -> str:
    """Log a run per group to a project, or to the one the environment names."""
    import wandb  # noqa: PLC0415 (loads for a second)

    project = where or os.environ.get("WANDB_PROJECT", _PROJECT)
    table = score.to_polars()
    rows = [[None if cell is None else str(cell) for cell in row] for row in table.rows()]
    page = make_page(score)
    for group in score.groups:
        with wandb.init(
            project=project,
            name=name_run(group),
            job_type="evaluation",
            config={**describe_score(score), **describe_group(group.by)},
            settings=wandb.Settings(silent=True, console="off"),
        ) as run:
            run.summary.update(list_values(group))
            shown = {"score": wandb.Table(columns=[*table.columns], data=rows)}
            run.log(shown if page is None else {**shown, "report": wandb.Html(page, inject=False)})
    return f"wandb: {len(score.groups)} runs in the project {project!r}"
