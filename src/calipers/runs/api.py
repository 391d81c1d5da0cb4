"""Run a suite, and report on what it left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from calipers.runs.report_data import SAMPLES, Report
from calipers.scores.choices import Choices, with_choices
from calipers.scores.options import Options
from calipers.scores.score import Progress
from calipers.support.arguments import names, no_progress

if TYPE_CHECKING:
    from calipers.runs.finish import RunResult
    from calipers.scores.choices import PolicyLike
    from calipers.systems.tally import Watch


def run(
    suite: str | Path,
    output: str | Path | None = None,
    *,
    fresh: bool = False,
    until_decided: bool = False,
    seed: int = 0,
    report: bool = True,
    watch: Watch | None = None,
    checks: str | Path | Sequence[Mapping[str, Any]] | None = None,
) -> RunResult:
    """Call the systems of a suite file on its tasks, keep every reply, score them and decide.

    Running again calls only what is missing. What has changed is never mixed with old answers.

    Args:
        suite: The suite file.
        output: The result folder. Without it the newest in `results/NAME`, or a new folder there,
            `results/NAME/TIMESTAMP`, where the suite, its data or the code under test has changed.
        fresh: Call everything again, in a new folder; the old results are kept.
        until_decided: Stop as soon as the verdict of the suite's gate is certain.
        seed: Draws the order of the tasks, with `until_decided`.
        report: Write report.html beside the numbers.
        watch: Is given the counts of the calls while these are made.
        checks: A file or a list of checks, added to those of the suite.

    Returns:
        The counts, among them of `new` and `reused` answers, the `score` and the `gate`.

    Raises:
        UsageError: The suite has a mistake, or `output` holds answers that are stale.
    """
    from calipers.runs.preparing import prepared  # noqa: PLC0415
    from calipers.runs.running import run_suite  # noqa: PLC0415

    return run_suite(
        prepared(suite, checks),
        None if output is None else Path(output),
        watch or (lambda _: nullcontext()),
        fresh=fresh,
        only_until_decided=until_decided,
        seed=seed,
        report=report,
    )


def report(
    data: Any,
    output: str | Path | None = None,
    *,
    policy: PolicyLike | None = None,
    title: str | None = None,
    samples: int = SAMPLES,
    figures: str | Path | None = None,
    by: str | Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    baseline: str = "T0",
    cluster: str | None = None,
    confidence: float = 0.95,
    resamples: int = 0,
    seed: int = 0,
    progress: Progress = no_progress,
    **choices: Unpack[Choices],
) -> Report:
    """What a person wants to know about some records, or a result folder, in one page.

    `output` names a file for it, HTML or, if it ends in .md, Markdown. A `policy` brings a verdict;
    without one, a result folder's own verdict is shown. `figures` names a folder for the figures.

    >>> told = report([{"id": "a", "answer": "4", "target": "5"}])
    >>> told.failures[0].what, told.failures[0].ids
    ('wrong', ('a',))
    """
    from calipers.runs.present import ReportOptions, report_data  # noqa: PLC0415 (loads pydantic)

    options = Options(
        by=names(by),
        renames=rename or {},
        on_bad=on_bad,
        baseline=baseline,
        cluster=cluster,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    asked = ReportOptions(policy=policy, samples=samples, title=title)
    made = report_data(data, asked, with_choices(options, choices, policy), progress)
    if figures is not None:
        made.score.save_figures(figures)
    if output is not None:
        made.save(output)
    return made
