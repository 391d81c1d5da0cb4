"""Have records judged, and measure how far judges can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from calipers.judges.audit_result import Audit
from calipers.judges.judge_audit import audit_data
from calipers.judges.judge_options import AuditOptions, JudgeOptions
from calipers.scores.calibration import Calibrations
from calipers.scores.resolve_options import declare_signature, resolve_options, split_own_options
from calipers.support.options import as_files

if TYPE_CHECKING:
    from calipers.judges.judge_files import JudgedFiles
    from calipers.support.keywords import AuditKeywords, CalibrateKeywords, JudgeKeywords
    from calipers.systems.journal import Watch


@declare_signature("judge", JudgeOptions)
def judge_records(
    files: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    watch: Watch | None = None,
    **options: Unpack[JudgeKeywords],
) -> JudgedFiles:
    """Judge the records in files by models, and write them with their `judgments`.

    With `pairwise=True` the files are two, and a line per task says whose answer is better. Run
    again with the same output to finish what is missing.

    Args:
        files: The records.
        output: The judged records, JSON lines.
        watch: A context manager that is given the counts of the calls while they are made.
        options: Listed below, and on docs/options.md.

    Returns:
        What was judged, what failed, and what it cost.
    """
    from calipers.judges.judge_files import judge_files  # noqa: PLC0415
    from calipers.judges.judging_plan import make_work  # noqa: PLC0415
    from calipers.judges.pairwise import PairWork, count_pairs  # noqa: PLC0415

    work = make_work(files, output, options)
    result = judge_files(work, watch or (lambda _: nullcontext()))
    if not isinstance(work, PairWork) or result.interrupted:
        return result
    return replace(result, pairs=count_pairs(work.output))


@declare_signature("calibrate")
def calibrate_judges(
    judged: str | Path | Sequence[str | Path],
    human: str | Path | Sequence[str | Path],
    **options: Unpack[CalibrateKeywords],
) -> Calibrations:
    """Compare the judges of judged records with what people say of the same records.

    Args:
        judged: Records with `judgments`.
        human: The same records as people judge them.
        options: Listed below, and on docs/options.md.

    Returns:
        Each judge's agreement with people, which `score` and `gate` correct by.
    """
    from calipers.judges.calibrate import calibrate_files  # noqa: PLC0415

    files = as_files("judged", judged), as_files("human", human)
    return calibrate_files(*files, confidence=resolve_options("calibrate", options).confidence)


@declare_signature("audit", AuditOptions)
def audit_judges(data: Any, **options: Unpack[AuditKeywords]) -> Audit:
    """Audit the judges in `judgments`: agreement, bias, pass rates, and scores against items.

    Args:
        data: Records with `judgments`, as `score` takes them, or answers compared in pairs.
        options: Listed below, and on docs/options.md.

    Returns:
        Agreement, bias and further measures of each judge, in each group.

    >>> strict = {"judge": "strict", "passed": False, "weighted_score": 0.4}
    >>> kind = {"judge": "kind", "passed": True, "weighted_score": 0.9}
    >>> audit = audit_judges([{"id": "q1", "judgments": [strict, kind]}])
    >>> [(judge.judge, judge.measures["bias"].value) for judge in audit.groups[0].judges]
    [('kind', 0.5), ('strict', -0.5)]
    """
    asked, others = split_own_options("audit", AuditOptions, options)
    return audit_data(data, resolve_options("audit", others), asked)
