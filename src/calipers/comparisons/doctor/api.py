"""`calipers.doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calipers.comparisons.doctor.examine import examine
from calipers.comparisons.doctor.results import Diagnosis


def doctor(
    data: Any,
    *,
    map: Mapping[str, str] | None = None,  # noqa: A002
    strict: bool = False,
) -> Diagnosis:
    """Report what files hold and support, what looks wrong in them, and what to run next.

    Args:
        data: Paths, or records, as `score` takes them.
        map: The data's names of the record's fields.
        strict: Whether a problem or a warning makes `exit_code` 1.

    Returns:
        The files with their fields, the findings with examples, and commands to copy.

    >>> rows = [{"id": f"q{n}", "run": 1, "answer": "4", "target": "4"} for n in (1, 2, 2)]
    >>> [(found.kind, found.count, found.examples) for found in doctor(rows).findings]
    [('duplicates', 1, ('q2',)), ('unequal runs', 1, ('q2',))]
    """
    return examine(data, field_map=map or {}, strict=strict)
