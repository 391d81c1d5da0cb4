"""A score in an experiment tracker, MLflow or Weights & Biases: a run per group.

Trackers keep numbers as a flat list of names and values; the tables and the report page go with
them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from time import time
from typing import TYPE_CHECKING, Any

from calipers.reports.number_format import format_group
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.scores.result import Group, Score

_PARTS = ("value", "low", "high", "stderr")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def list_values(group: Group) -> dict[str, float]:
    """Return `accuracy`, `accuracy.low`, `accuracy.high`, … as far as they have a value."""
    found: dict[str, float] = {"records": group.records, "errors": group.errors}
    for name, measured in group.metrics.items():
        for part in _PARTS:
            if (value := getattr(measured, part)) is not None:
                key = clean_name(name)
                found[key if part == "value" else f"{key}.{part}"] = float(value)
        found[f"{clean_name(name)}.n"] = measured.n
    return found


def clean_name(name: str) -> str:
    """Return a name that every tracker takes: `mean(score)` becomes `mean_score`."""
    return _NOT_A_NAME.sub("_", name).strip("_") or "unnamed"


def name_run(group: Group) -> str:
    """Return what a run of a tracker is called: the values that the group shares."""
    return format_group(group.by) if group.by else "all records"


def describe_score(score: Score) -> dict[str, Any]:
    """Return the version, seed, inputs and settings behind the numbers."""
    return {
        "calipers.version": __version__,
        "calipers.seed": str(score.seed),
        "calipers.inputs": ", ".join(each.path for each in score.inputs),
    }


def describe_group(by: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields a group is made by, as texts."""
    return {clean_name(name): "null" if value is None else str(value) for name, value in by.items()}


def make_page(score: Score) -> str | None:
    """Return the report page of a score alone; None where what draws it is not installed."""
    from calipers.reports.data.report_data import Report, require_report  # noqa: PLC0415
    from calipers.support.errors import MissingExtraError  # noqa: PLC0415

    try:
        require_report("a report")
    except MissingExtraError:
        return None
    title = ", ".join(each.path for each in score.inputs) or "score"
    return Report(title=title, facts={}, score=score, notices=score.notices).to_html()


_EXPERIMENT = "calipers"
_MOST_METRICS = 1_000  # metrics that a server takes in one request
_LONGEST_TAG = 5_000  # characters of a tag, and 500 of a parameter
_LONGEST_PARAMETER = 500


def send_to_mlflow(score: Score, where: str | None) -> str:
    """Log a run per group to the tracking server, or to the one the environment names."""
    from mlflow import MlflowClient  # noqa: PLC0415 (loads for seconds)
    from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415

    if where is not None:  # a store of files is refused unless it is asked for: it was named
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    client = MlflowClient(tracking_uri=where)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _EXPERIMENT)
    known = client.get_experiment_by_name(name)
    experiment = client.create_experiment(name) if known is None else known.experiment_id
    artifacts = {
        "score.json": score.to_json(),
        "score.csv": score.to_csv(),
        "score.md": score.to_markdown(),
        "report.html": make_page(score),
    }
    now = int(time() * 1000)
    tags = [RunTag(key, text[:_LONGEST_TAG]) for key, text in describe_score(score).items()]
    for group in score.groups:
        run = client.create_run(experiment, run_name=name_run(group)).info.run_id
        metrics = [Metric(key, value, now, 0) for key, value in list_values(group).items()]
        params = [
            Param(key, text[:_LONGEST_PARAMETER]) for key, text in describe_group(group.by).items()
        ]
        client.log_batch(run, params=params, tags=tags)
        for start in range(0, len(metrics), _MOST_METRICS):
            client.log_batch(run, metrics=metrics[start : start + _MOST_METRICS])
        for file, text in artifacts.items():
            if text is not None:
                client.log_text(run, text, file)
        client.set_terminated(run)
    return f"mlflow: {_count_runs(score)} in the experiment {name!r}"


_PROJECT = "calipers"


def send_to_wandb(score: Score, where: str | None) -> str:
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
    return f"wandb: {_count_runs(score)} in the project {project!r}"


def _count_runs(score: Score) -> str:
    return "1 run" if len(score.groups) == 1 else f"{len(score.groups)} runs"
