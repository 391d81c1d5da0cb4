"""`calipers.doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calipers.comparisons.doctor.examine import examine
from calipers.comparisons.doctor.results import Diagnosis
from calipers.records.reading import take_reading


@take_reading
def doctor(
    data: Any,
    *,
    map: Mapping[str, str] | None = None,  # noqa: A002
    source: str | None = None,
    join: str | Path | None = None,
    on: str | None = None,
    strict: bool = False,
) -> Diagnosis:
    """Report what files hold and support, what looks wrong in them, and what to run next.

    Args:
        data: Paths, or records, as `score` takes them.
        map: The data's names of the record's fields.
        source: The tool whose logs these are, whatever is in them; "records" if of none.
        join: A file of tasks, whose fields are added to the records.
        on: With `join`: the field that is the same in record and task; `id` by default.
        strict: Whether a problem or a warning makes `exit_code` 1.

    Returns:
        The files with their fields, the findings with examples, and commands to copy.

    >>> rows = [{"id": f"q{n}", "run": 1, "answer": "4", "target": "4"} for n in (1, 2, 2)]
    >>> [(found.kind, found.count, found.examples) for found in doctor(rows).findings]
    [('duplicates', 1, ('q2',)), ('unequal runs', 1, ('q2',))]
    """
    del source, join, on  # applied by take_reading
    return examine(data, field_map=map or {}, strict=strict)
