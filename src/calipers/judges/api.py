"""Have records judged, and measure how far judges can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from calipers.judges.audit import Audit
from calipers.judges.auditing import audit_data
from calipers.judges.rubric_items import read_rubric
from calipers.scores.calibration import Calibrations
from calipers.scores.options import Options
from calipers.support.arguments import names

if TYPE_CHECKING:
    from calipers.judges.judged import JudgedFiles
    from calipers.judges.options import Judging
    from calipers.systems.tally import Watch


def judge_records(
    files: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    watch: Watch | None = None,
    **judging: Unpack[Judging],
) -> JudgedFiles:
    """Have the records in files judged by models, and write them with their `judgments`.

    `judging` says by whom and how, see `calipers.judges.options.Judging`. Run again with the same
    output to finish what is missing.
    """
    from calipers.judges.judging import judge_files  # noqa: PLC0415
    from calipers.judges.options import work_of  # noqa: PLC0415

    return judge_files(work_of(files, output, judging), watch or (lambda _: nullcontext()))


def calibrate_judges(
    judged: str | Path | Sequence[str | Path],
    human: str | Path | Sequence[str | Path],
    *,
    confidence: float = 0.95,
) -> Calibrations:
    """Compare the judges of judged records with what people say of the same records."""
    from calipers.judges.calibrate import calibrate_files  # noqa: PLC0415

    files = [[each] if isinstance(each, str | Path) else each for each in (judged, human)]
    return calibrate_files(*files, confidence=confidence)


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
        by=names(by),
        renames=rename or {},
        on_bad=on_bad,
        cluster=cluster,
        confidence=confidence,
        seed=seed,
    )
    rubric = None if weights is None else read_rubric(weights)
    return audit_data(data, options, rubric=rubric, worst=worst)
