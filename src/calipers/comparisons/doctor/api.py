"""`calipers.doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from calipers.comparisons.doctor.examine import examine
from calipers.comparisons.doctor.results import Diagnosis
from calipers.comparisons.options.doctor import DoctorOptions
from calipers.scores.choices import declare_signature, read_options, take_own

if TYPE_CHECKING:
    from calipers.support.keywords import DoctorKeywords


@declare_signature("doctor", DoctorOptions)
def doctor(data: Any, **options: Unpack[DoctorKeywords]) -> Diagnosis:
    """Report what files hold and support, what looks wrong in them, and what to run next.

    Args:
        data: Paths, or records, as `score` takes them.
        options: Listed below, and on docs/options.md.

    Returns:
        The files with their fields, the findings with examples, and commands to copy.

    >>> rows = [{"id": f"q{n}", "run": 1, "answer": "4", "target": "4"} for n in (1, 2, 2)]
    >>> [(found.kind, found.count, found.examples) for found in doctor(rows).findings]
    [('duplicates', 1, ('q2',)), ('unequal runs', 1, ('q2',))]
    """
    asked, others = take_own("doctor", DoctorOptions, options)
    return examine(data, field_map=read_options("doctor", others).map, strict=asked.strict)
