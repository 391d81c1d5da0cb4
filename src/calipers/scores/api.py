"""Measure records, and explain a value: what `import calipers` offers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from calipers.scores.choices import declare_signature, read_options
from calipers.scores.results import Score
from calipers.scores.score import Progress, score_data
from calipers.support.arguments import as_names, ignore_progress

if TYPE_CHECKING:
    from calipers.scores.explain import Explanation
    from calipers.support.keywords import ExplainKeywords, ScoreKeywords


@declare_signature("score")
def score(
    data: Any, *, progress: Progress = ignore_progress, **options: Unpack[ScoreKeywords]
) -> Score:
    """Measure records: every metric that the data allows, or those of a profile, or those named.

    Args:
        data: A path, a glob, a folder of Parquet parts, several of these, a list of dicts, or a
            Polars, pandas, Arrow or Spark table.
        progress: Is given the share of the work that is done, from 0 to 1.
        options: Listed below, and on docs/options.md. What is given here takes precedence over the
            metric settings of a `policy`.

    Returns:
        The score: `score["accuracy"]` where there is one group, else `score.group(model="m0")`.

    Raises:
        TypeError: An argument is of another type, or is not known.
        CalipersError: An option makes no sense, or the data cannot be read.

    >>> measured = score([{"answer": "4", "target": "4"}, {"answer": "5", "target": "4"}])
    >>> measured["accuracy"].value
    0.5
    """
    asked = read_options("score", options, data, must_measure=True)
    measured = score_data(data, asked, progress)
    if asked.figures is None or not measured.records:
        return measured
    left_out = measured.save_figures(asked.figures, asked.profile)
    notices = (f"no figure {name}: {reason}" for name, reason in left_out.items())
    return replace(measured, notices=(*measured.notices, *notices))


@declare_signature("explain")
def explain(metric: str, data: Any, **options: Unpack[ExplainKeywords]) -> Explanation:
    """Explain how the value of a metric was computed.

    Args:
        metric: The metric's name.
        data: Records, as `score` takes them.
        options: Listed below, and on docs/options.md.

    Returns:
        Formula, rows used and left out, and the most influential rows, for each group.

    >>> answers = [{"answer": "4", "target": "4"}, {"answer": "5", "target": "4"}]
    >>> explain("accuracy", answers).groups[0].work
    '1 / 2'
    """
    metrics = as_names("metric", metric, example='"accuracy"')
    asked = read_options("explain", options, data, metrics=metrics)
    from calipers.scores.explain import explain_data  # noqa: PLC0415 (only where asked for)

    return explain_data(data, asked)
