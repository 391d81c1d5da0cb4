"""The public functions, as a notebook calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import polars as pl

from calipers.agreeing import Agreement, agree_data
from calipers.agreeing import Options as AgreeOptions
from calipers.auditing import audit_data
from calipers.audits import Audit
from calipers.calibrations import Calibration, Calibrations, read_all
from calipers.choices import Choices, with_choices
from calipers.comparing import CompareOptions, compare_data
from calipers.comparisons import Compared
from calipers.converting import Converted, batches, convert_data
from calipers.errors import DataError, UsageError
from calipers.explaining import Explanation, explain_data
from calipers.powering import PowerAnalysis, power_data
from calipers.ratings import Where
from calipers.records import BadValue
from calipers.reports import SAMPLES, Report
from calipers.results import Score
from calipers.rubric_items import read_rubric
from calipers.scoring import Options, Progress, score_data
from calipers.sizing import REPEATS, Aim
from calipers.sources import open_sources
from calipers.stats.power import CORRELATION
from calipers.traces import trace_picture

if TYPE_CHECKING:
    from calipers.choices import PolicyLike
    from calipers.gating.result import GateResult
    from calipers.judging_options import Judging
    from calipers.runner.ending import RunResult
    from calipers.runner.judged import JudgedFiles
    from calipers.runner.running import Watch


def _no_progress(share: float) -> None:
    del share


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
    progress: Progress = _no_progress,
    policy: PolicyLike | None = None,
    calibration: str | Path | Sequence[str | Path] = (),
    **choices: Unpack[Choices],
) -> Score:
    """Measure records: every metric that the data allows, or those of a profile, or those named.

    `data` is a path, a glob, a folder of Parquet parts, several of these, a list of dicts, or a
    Polars, pandas or Arrow table. `rename` maps the record's fields to the data's names.
    `choices` say how metrics are computed, see `calipers.choices.Choices`; a gate's `policy` brings
    the weights of scenarios and the latency budget. A judge's `calibration` file corrects the means
    of what it judged.

    >>> score([{"answer": "4", "target": "4"}]).groups[0].metrics["accuracy"].value
    1.0
    """
    options = Options(
        by=_names(by),
        profile=profile,
        metrics=tuple(metrics),
        engine=engine,
        renames=rename or {},
        baseline=baseline,
        on_bad=on_bad,
        bad_rows=_path(bad_rows),
        per_sample=_path(per_sample),
        per_task=_path(per_task),
        figures=_path(figures),
        hash_inputs=hash_inputs,
        cluster=cluster,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        calibrations=_calibrations(calibration),
    )
    measured = score_data(data, with_choices(options, choices, policy), progress)
    if options.figures is None or not measured.records:
        return measured
    left_out = measured.save_figures(options.figures, profile)
    notices = (f"no figure {name}: {reason}" for name, reason in left_out.items())
    return replace(measured, notices=(*measured.notices, *notices))


def gate(
    data: Any,
    *,
    policy: PolicyLike,
    release: str | None = None,
    against: str | Path | None = None,
    save_baseline: str | Path | None = None,
    ratchet: bool = False,
    by: str | Sequence[str] = (),
    engine: str = "polars",
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    cluster: str | None = None,
    confidence: float = 0.95,
    resamples: int = 0,
    seed: int = 0,
    progress: Progress = _no_progress,
    **choices: Unpack[Choices],
) -> GateResult:
    """Decide on records: every demand of a policy, with the reason where it is not met.

    `policy` is a YAML or JSON file, or the same as a mapping. `against` names a baseline that
    `save_baseline` recorded; `ratchet` raises it where a run that passes is better.

    >>> demands = {"thresholds": {"blocking": {"accuracy": "≥ 90%"}}}
    >>> records = [{"answer": "4", "target": "4"}, {"answer": "5", "target": "4"}]
    >>> decided = gate(records, policy=demands)
    >>> decided.verdict, decided.checks[0].reason.partition(";")[0]
    ('fail', '50 % where ≥ 90 % is demanded')
    """
    from calipers.deciding import GateOptions, gate_data  # noqa: PLC0415 (loads pydantic)

    options = Options(
        by=_names(by),
        engine=engine,
        renames=rename or {},
        on_bad=on_bad,
        cluster=cluster,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    asked = GateOptions(
        release=release,
        against=_path(against),
        save_baseline=_path(save_baseline),
        ratchet=ratchet,
        latency_budget_ms=choices.get("latency_budget_ms"),
    )
    return gate_data(data, policy, asked, with_choices(options, choices), progress)


def run(
    suite: str | Path,
    output: str | Path | None = None,
    *,
    until_decided: bool = False,
    seed: int = 0,
    report: bool = True,
    watch: Watch | None = None,
) -> RunResult:
    """Call the systems of a suite file on its tasks, keep every reply, score them and decide.

    `output` is the result folder, `results/NAME` without it. Run again to finish what is missing.
    With `until_decided` the run ends as soon as it is sure what the suite's gate will say; `seed`
    draws the order of its tasks. Without `report`, no page is written beside the numbers.
    `watch` is given the counts of the calls while these are made.
    """
    from calipers.runner.running import default_folder, prepared, run_suite  # noqa: PLC0415

    ready = prepared(suite)
    folder = default_folder(ready.suite) if output is None else Path(output)
    seen = watch or (lambda _: nullcontext())
    return run_suite(
        ready, folder, seen, only_until_decided=until_decided, seed=seed, report=report
    )


def judge_records(
    files: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    watch: Watch | None = None,
    **judging: Unpack[Judging],
) -> JudgedFiles:
    """Have the records in files judged by models, and write them with their `judgments`.

    `judging` says by whom and how, see `calipers.judging_options.Judging`. Run again with the same
    output to finish what is missing.
    """
    from calipers.judging_options import work_of  # noqa: PLC0415
    from calipers.runner.judging import judge_files  # noqa: PLC0415

    return judge_files(work_of(files, output, judging), watch or (lambda _: nullcontext()))


def calibrate_judges(
    judged: str | Path | Sequence[str | Path],
    human: str | Path | Sequence[str | Path],
    *,
    confidence: float = 0.95,
) -> Calibrations:
    """Compare the judges of judged records with what people say of the same records."""
    from calipers.calibrating import calibrate_files  # noqa: PLC0415

    files = [[each] if isinstance(each, str | Path) else each for each in (judged, human)]
    return calibrate_files(*files, confidence=confidence)


def compare(
    *data: Any,
    by: str | Sequence[str] = (),
    profile: str | None = None,
    metrics: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    unpaired: bool = False,
    between: str | None = None,
    attribute: bool = False,
    base_normalize: Literal["numeric", "text"] | None = None,
    flips: str | Path | None = None,
    cluster: str | None = None,
    confidence: float = 0.95,
    resamples: int = 0,
    seed: int = 0,
    policy: PolicyLike | None = None,
    **choices: Unpack[Choices],
) -> Compared:
    """Compare runs task by task, the first with the second; of more than two, all pairs.

    >>> base = [{"id": str(n), "correct": n < 6} for n in range(10)]
    >>> better = [{"id": str(n), "correct": n < 9} for n in range(10)]
    >>> found = compare(base, better).pairs[0].metrics["accuracy"]
    >>> round(found.difference, 2), found.test, found.p_value
    (0.3, 'exact McNemar', 0.25)
    """
    options = Options(
        by=_names(by),
        profile=profile,
        metrics=tuple(metrics),
        renames=rename or {},
        on_bad=on_bad,
        cluster=cluster,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    asked = CompareOptions(
        unpaired=unpaired,
        between=between,
        attribute=attribute,
        base_normalize=base_normalize,
        flips=_path(flips),
    )
    return compare_data(data, with_choices(options, choices, policy), asked)


def power(
    data: Any,
    candidate: Any = None,
    *,
    delta: float | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    correlation: float = CORRELATION,
    runs: Sequence[int] = REPEATS,
    metrics: Sequence[str] = (),
    by: str | Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    policy: PolicyLike | None = None,
    **choices: Unpack[Choices],
) -> PowerAnalysis:
    """How many tasks and runs it takes to see a difference, and what the run in `data` could see.

    With a `candidate`, a run of another system on the same tasks, the variance of the difference is
    measured; without one, the other system is taken to vary like this one, with that `correlation`.

    >>> run = [{"id": str(n), "correct": n % 3 == 0} for n in range(90)]
    >>> found = power(run, delta=0.1).groups[0].metrics["accuracy"]
    >>> found.plans[0].tasks, round(found.detectable, 3)
    (179, 0.142)
    """
    aim = Aim(
        delta=delta,
        power=power,
        confidence=confidence,
        correlation=correlation,
        runs=tuple(runs),
    )
    options = Options(
        by=_names(by),
        metrics=tuple(metrics),
        renames=rename or {},
        on_bad=on_bad,
    )
    return power_data(data, candidate, aim, with_choices(options, choices, policy))


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
    progress: Progress = _no_progress,
    **choices: Unpack[Choices],
) -> Report:
    """What a person wants to know about some records, or a result folder, in one page.

    `output` names a file for it, HTML or, if it ends in .md, Markdown. A `policy` brings a verdict;
    without one, a result folder's own verdict is shown. `figures` names a folder for the figures.

    >>> told = report([{"id": "a", "answer": "4", "target": "5"}])
    >>> told.failures[0].what, told.failures[0].ids
    ('wrong', ('a',))
    """
    from calipers.presenting import ReportOptions, report_data  # noqa: PLC0415 (loads pydantic)

    options = Options(
        by=_names(by),
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
    """How a metric came to its value: formula, rows used and left out, the rows that weigh most.

    >>> answers = [{"answer": "4", "target": "4"}, {"answer": "5", "target": "4"}]
    >>> explain("accuracy", answers).groups[0].work
    '1 / 2'
    """
    options = Options(
        by=_names(by),
        metrics=(metric,),
        renames=rename or {},
        on_bad=on_bad,
    )
    return explain_data(data, with_choices(options, choices, policy), rows=rows)


def agree(
    data: Any,
    *,
    raters: Sequence[str] = (),
    unit: str | Sequence[str] = (),
    value: str | None = None,
    rater_field: str | None = None,
    level: Literal["nominal", "ordinal", "interval"] = "interval",
    confidence: float = 0.95,
    cluster: str | Sequence[str] = (),
    seed: int = 0,
) -> Agreement:
    """How far raters agree: percent, kappas, Krippendorff's alphas, correlations, with intervals.

    `data` has a column per rater; or `judgments`; or, with `rater_field`, a row per rating. `unit`
    names the fields that tell one rated thing from another; without it, each row is one.

    >>> ratings = [{"human": "yes", "judge": "yes"}, {"human": "no", "judge": "yes"}]
    >>> agree(ratings, raters=["human", "judge"]).measures["percent_agreement"].value
    0.5
    """
    where = Where(
        raters=_names(raters),
        unit=_names(unit),
        rater_field=rater_field,
        value=value,
        cluster=_names(cluster),
    )
    options = AgreeOptions(where=where, level=level, confidence=confidence, seed=seed)
    return agree_data(data, options)


def audit_judges(
    data: Any,
    *,
    by: str | Sequence[str] = (),
    weights: str | Path | Mapping[str, Any] | None = None,
    worst: int = 5,
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    cluster: str | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Audit the judges in `judgments`: agreement, bias, pass rates, and scores against items.

    `weights`, of items, categories or criteria by name, is a YAML or JSON file or a mapping.

    >>> strict = {"judge": "strict", "passed": False, "weighted_score": 0.4}
    >>> kind = {"judge": "kind", "passed": True, "weighted_score": 0.9}
    >>> audit = audit_judges([{"id": "q1", "judgments": [strict, kind]}])
    >>> [(judge.judge, judge.measures["bias"].value) for judge in audit.groups[0].judges]
    [('kind', 0.5), ('strict', -0.5)]
    """
    options = Options(
        by=_names(by),
        renames=rename or {},
        on_bad=on_bad,
        cluster=cluster,
        confidence=confidence,
        seed=seed,
    )
    rubric = None if weights is None else read_rubric(weights)
    return audit_data(data, options, rubric=rubric, worst=worst)


def trace_svg(
    trace: Any,
    *,
    graph: Literal["tools", "agents"] | None = None,
    start: str | None = None,
    goal: str | None = None,
) -> str:
    """A picture of one trace, an object or its JSON text, as SVG.

    The graph of its tools with the shortest way from start to goal, or of its agents with the most
    central one; without a choice the tools, if any was called.

    >>> trace_svg({"tool_calls": [{"tool_name": "search"}, {"tool_name": "write"}]})[:4]
    '<svg'
    """
    if graph not in (None, "tools", "agents"):
        raise UsageError(f"no graph of a trace is called {graph}", fix="tools or agents")
    try:
        return trace_picture(trace, graph=graph, start=start, goal=goal)
    except BadValue as problem:
        raise DataError(f"trace: {problem}", fix="mend the trace; other keys are ignored") from None


def read(data: Any, *, rename: Mapping[str, str] | None = None) -> pl.DataFrame:
    """The records in `data` as a Polars frame: checked, in the record's types, all fields kept.

    >>> read([{"question": "2 + 2", "answer": 4}], rename={"input": "question"}).row(0, named=True)
    {'input': '2 + 2', 'answer': '4'}
    """
    frames = []
    for source in open_sources(data):
        for batch, _ in batches(source, rename or {}):
            if batch.bad:
                raise batch.bad[0].error()
            frames.append(batch.frame)
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def convert(
    data: Any,
    output: str | Path,
    *,
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    bad_rows: str | Path | None = None,
    progress: Progress = _no_progress,
) -> Converted:
    """Write the records in `data`, any log that `score` reads, to a .parquet or .jsonl file."""
    return convert_data(
        data,
        Path(output),
        renames=rename or {},
        skip_bad=on_bad == "skip",
        bad_rows=_path(bad_rows),
        progress=progress,
    )


def _calibrations(files: str | Path | Sequence[str | Path]) -> tuple[Calibration, ...]:
    return read_all([files] if isinstance(files, str | Path) else files)


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _names(fields: str | Sequence[str]) -> tuple[str, ...]:
    return (fields,) if isinstance(fields, str) else tuple(fields)
