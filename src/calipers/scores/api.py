"""Measure records, and explain a value: what `import calipers` offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from calipers.scores.calibration import Calibration, read_all
from calipers.scores.choices import Choices, with_choices
from calipers.scores.explain import Explanation, explain_data
from calipers.scores.options import Options
from calipers.scores.results import Score
from calipers.scores.score import Progress, score_data
from calipers.support.arguments import names, no_progress, path_of

if TYPE_CHECKING:
    from calipers.scores.choices import PolicyLike


def score(
    data: Any,
    *,
    by: str | Sequence[str] = (),
    profile: str | None = None,
    metrics: Sequence[str] = (),
    engine: str = "polars",
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    bad_rows: str | Path | None = None,
    per_sample: str | Path | None = None,
    per_task: str | Path | None = None,
    figures: str | Path | None = None,
    hash_inputs: bool = False,
    baseline: str = "T0",
    cluster: str | None = None,
    confidence: float = 0.95,
    resamples: int = 0,
    seed: int = 0,
    progress: Progress = no_progress,
    tasks: Literal["sampled", "fixed"] = "sampled",
    weight: Literal["task", "row"] = "row",
    policy: PolicyLike | None = None,
    calibration: str | Path | Sequence[str | Path] = (),
    **choices: Unpack[Choices],
) -> Score:
    """Measure records: every metric that the data allows, or those of a profile, or those named.

    `data` is a path, a glob, a folder of Parquet parts, several of these, a list of dicts, or a
    Polars, pandas or Arrow table. `rename` maps the record's fields to the data's names.
    `choices` say how metrics are computed, see `calipers.scores.choices.Choices`; a gate's
    `policy` brings the weights of scenarios and the latency budget. With `tasks="fixed"`
    intervals hold for these very tasks: only the noise of their runs counts. With `weight="task"`
    means count every task alike, however many runs it has. A judge's `calibration` file corrects
    the means of what it judged.

    >>> score([{"answer": "4", "target": "4"}]).groups[0].metrics["accuracy"].value
    1.0
    """
    options = Options(
        by=names(by),
        profile=profile,
        metrics=tuple(metrics),
        engine=engine,
        renames=rename or {},
        baseline=baseline,
        on_bad=on_bad,
        bad_rows=path_of(bad_rows),
        per_sample=path_of(per_sample),
        per_task=path_of(per_task),
        figures=path_of(figures),
        hash_inputs=hash_inputs,
        cluster=cluster,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        tasks=tasks,
        weight=weight,
        calibrations=_calibrations(calibration),
        must_measure=True,
    )
    measured = score_data(data, with_choices(options, choices, policy), progress)
    if options.figures is None or not measured.records:
        return measured
    left_out = measured.save_figures(options.figures, profile)
    notices = (f"no figure {name}: {reason}" for name, reason in left_out.items())
    return replace(measured, notices=(*measured.notices, *notices))


def explain(
    metric: str,
    data: Any,
    *,
    by: str | Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    rows: int = 5,
    policy: PolicyLike | None = None,
    **choices: Unpack[Choices],
) -> Explanation:
    """How a metric came to its value: formula, rows used and left out, the most influential rows.

    >>> answers = [{"answer": "4", "target": "4"}, {"answer": "5", "target": "4"}]
    >>> explain("accuracy", answers).groups[0].work
    '1 / 2'
    """
    options = Options(
        by=names(by),
        metrics=(metric,),
        renames=rename or {},
        on_bad=on_bad,
    )
    return explain_data(data, with_choices(options, choices, policy), rows=rows)


def _calibrations(files: str | Path | Sequence[str | Path]) -> tuple[Calibration, ...]:
    return read_all([files] if isinstance(files, str | Path) else files)
