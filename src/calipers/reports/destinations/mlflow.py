"""A score in MLflow: a run per group, its values and bounds as metrics, the tables as artifacts."""

from __future__ import annotations

import os
from time import time
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

_EXPERIMENT = "calipers"
_AT_ONCE = 1_000  # metrics that a server takes in one request
_LONGEST = 5_000  # characters of a tag, and 500 of a parameter
_LONGEST_PARAMETER = 500


def send(score: Score, where: str | None) -> str:
    """Log a run per group to the tracking server, or to the one the environment names."""
    from mlflow import MlflowClient  # noqa: PLC0415 (loads for seconds)
    from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415

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
    tags = [RunTag(key, text[:_LONGEST]) for key, text in describe_score(score).items()]
    for group in score.groups:
        run = client.create_run(experiment, run_name=name_run(group)).info.run_id
        metrics = [Metric(key, value, now, 0) for key, value in list_values(group).items()]
        params = [
            Param(key, text[:_LONGEST_PARAMETER]) for key, text in describe_group(group.by).items()
        ]
        client.log_batch(run, params=params, tags=tags)
        for start in range(0, len(metrics), _AT_ONCE):
            client.log_batch(run, metrics=metrics[start : start + _AT_ONCE])
        for file, text in artifacts.items():
            if text is not None:
                client.log_text(run, text, file)
        client.set_terminated(run)
    return f"mlflow: {len(score.groups)} runs in the experiment {name!r}"
