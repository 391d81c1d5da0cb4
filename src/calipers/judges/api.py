"""Have records judged, and measure how far judges can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from calipers.judges.audit import Audit
from calipers.judges.auditing import audit_data
from calipers.judges.rubric_items import read_rubric
from calipers.records.reading import take_reading
from calipers.scores.calibration import Calibrations
from calipers.scores.choices import read_options
from calipers.scores.signatures import declare_signature
from calipers.support.arguments import as_files, refuse_renamed

if TYPE_CHECKING:
    from calipers.judges.judged import JudgedFiles
    from calipers.judges.options import Judging
    from calipers.scores.keywords import AuditKeywords
    from calipers.systems.tally import Watch


@refuse_renamed
@take_reading
def judge_records(
    files: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    watch: Watch | None = None,
    **judging: Unpack[Judging],
) -> JudgedFiles:
    """Judge the records in files by models, and write them with their `judgments`.

    With `pairwise=True` the files are two, and a line per task says whose answer is better. Run
    again with the same output to finish what is missing.

    Args:
        files: The records.
        output: The judged records, JSON lines.
        watch: A context manager that is given the counts of the calls while they are made.
        judging: The model, the rubric and further options: `calipers.judges.options.Judging`.

    Returns:
        What was judged, what failed, and what it cost.
    """
    from calipers.judges.judging import judge_files  # noqa: PLC0415
    from calipers.judges.options import make_work  # noqa: PLC0415
    from calipers.judges.pairwise import count_pairs  # noqa: PLC0415

    work = make_work(files, output, judging)
    result = judge_files(work, watch or (lambda _: nullcontext()))
    if not judging.get("pairwise") or result.interrupted:
        return result
    return replace(result, pairs=count_pairs(work.output))


def calibrate_judges(
    judged: str | Path | Sequence[str | Path],
    human: str | Path | Sequence[str | Path],
    *,
    confidence: float = 0.95,
) -> Calibrations:
    """Compare the judges of judged records with what people say of the same records.

    Args:
        judged: Records with `judgments`.
        human: The same records as people judge them.
        confidence: Confidence level of the intervals.

    Returns:
        Each judge's agreement with people, which `score` and `gate` correct by.
    """
    from calipers.judges.calibrate import calibrate_files  # noqa: PLC0415

    return calibrate_files(
        as_files("judged", judged), as_files("human", human), confidence=confidence
    )


@declare_signature("audit")
def audit_judges(
    data: Any,
    *,
    weights: str | Path | Mapping[str, Any] | None = None,
    worst: int = 5,
    before: Any = None,
    **options: Unpack[AuditKeywords],
) -> Audit:
    """Audit the judges in `judgments`: agreement, bias, pass rates, and scores against items.

    Args:
        data: Records with `judgments`, as `score` takes them, or answers compared in pairs.
        weights: Of items, categories or criteria by name: a YAML or JSON file, or a mapping.
        worst: How many of the scores that differ from the sum of their items to list per judge.
        before: Judgments of the same answers by an earlier run: tests whether a judge has changed.
        options: Listed below, and on docs/options.md.

    Returns:
        Agreement, bias and further measures of each judge, in each group.

    >>> strict = {"judge": "strict", "passed": False, "weighted_score": 0.4}
    >>> kind = {"judge": "kind", "passed": True, "weighted_score": 0.9}
    >>> audit = audit_judges([{"id": "q1", "judgments": [strict, kind]}])
    >>> [(judge.judge, judge.measures["bias"].value) for judge in audit.groups[0].judges]
    [('kind', 0.5), ('strict', -0.5)]
    """
    rubric = None if weights is None else read_rubric(weights)
    return audit_data(
        data, read_options("audit", options), rubric=rubric, worst=worst, before=before
    )
