"""A score in the shared format of Every Eval Ever (schema 0.3.0): a file per group.

The layout is theirs: `BENCHMARK/DEVELOPER/MODEL/UUID.json`. What Calipers cannot know (who runs
the evaluation, where the model runs) is written as unknown, to be filled in before it is shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from calipers.reports.destinations.trackers import clean_name, describe_group, name_run
from calipers.support.errors import UsageError
from calipers.support.files import write_whole
from calipers.support.strict_json import dump_strict
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.scores.result import Group, Measured, Score

_SCHEMA_VERSION = "0.3.0"
_UNKNOWN = "unknown"


def send_to_every_eval_ever(score: Score, where: str | None) -> str:
    """Write a file per group below the folder; a group without any value has none."""
    if where is None:
        raise UsageError(
            "--to every_eval_ever: no folder is named", fix="for example every_eval_ever:data"
        )
    benchmark = clean_name(Path(score.inputs[0].path).stem) if score.inputs else _UNKNOWN
    written = 0
    for group in score.groups:
        if any(measured.value is not None for measured in group.metrics.values()):
            _write(score, group, benchmark, Path(where))
            written += 1
    files = "1 file" if written == 1 else f"{written} files"
    return f"every_eval_ever: {files} below {where}"


def _write(score: Score, group: Group, benchmark: str, root: Path) -> None:
    model = str(group.by.get("model") or name_run(group))
    developer, _, short = model.rpartition("/")
    now = str(int(time()))
    identifier = f"{benchmark}/{model}/{now}"
    content = {
        "schema_version": _SCHEMA_VERSION,
        "evaluation_id": identifier,
        "retrieved_timestamp": now,
        "source_metadata": {
            "source_name": "Calipers",
            "source_type": "evaluation_run",
            "source_organization_name": _UNKNOWN,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "calipers", "version": __version__},
        "model_info": {
            "name": model,
            "id": model if developer else f"{_UNKNOWN}/{model}",
            **({"developer": developer} if developer else {}),
            "additional_details": {
                "deployment_type": _UNKNOWN,
                "model_availability": _UNKNOWN,
                **describe_group(group.by),
            },
        },
        "evaluation_results": [
            _describe(name, measured, benchmark, score.settings)
            for name, measured in group.metrics.items()
            if measured.value is not None
        ],
    }
    folder = root / benchmark / (clean_name(developer) if developer else _UNKNOWN)
    file = folder / clean_name(short) / f"{uuid4()}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, dump_strict(content, indent=1) + "\n")


def _describe(
    name: str, measured: Measured, benchmark: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    from calipers.metrics import metric_named  # noqa: PLC0415 (loads Polars)

    metric = metric_named(name)
    low, high = metric.range
    uncertainty: dict[str, Any] = {"num_samples": measured.n}
    if measured.stderr is not None:
        uncertainty["standard_error"] = {"value": measured.stderr}
    if measured.low is not None and measured.high is not None:
        uncertainty["confidence_interval"] = {
            "lower": measured.low,
            "upper": measured.high,
            "confidence_level": float(settings.get("confidence", 0.95)),
            **({"method": measured.interval} if measured.interval else {}),
        }
    return {
        "evaluation_name": benchmark,
        "source_data": {"dataset_name": benchmark, "source_type": "other"},
        "metric_config": {
            "evaluation_description": metric.says,
            "metric_id": name,
            "metric_name": name,
            **({"metric_unit": metric.unit} if metric.unit else {}),
            "lower_is_better": metric.better == "lower",
            "score_type": "continuous",
            "min_score": "-Infinity" if isinf(low) else low,
            "max_score": "Infinity" if isinf(high) else high,
        },
        "score_details": {"score": measured.value, "uncertainty": uncertainty},
    }
