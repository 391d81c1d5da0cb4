"""Records that cannot be read, that are not there yet, or whose call failed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from calipers.comparisons.doctor.facts import ERROR, FAILED, SYSTEM, Facts
from calipers.comparisons.doctor.results import Finding, format_share

_PERCENT = re.compile(r"^prob_correct: ([0-9.]+) is outside")
_MANY_FAILED = 0.05  # of a system's calls


def find_bad_rows(facts: Facts) -> Iterator[Finding]:
    """Yield the rows that `score` stops at, a finding per field that is wrong."""
    rows = facts.rows.height + sum(each.count for each in facts.bad)
    for each in facts.bad:
        percent = _PERCENT.match(each.problem)
        fix = "fix the rows, read another field (--map FIELD=NAME), or leave them out: "
        fix += "--on-bad skip"
        if percent is not None and 1 < float(percent[1]) <= 100:  # noqa: PLR2004
            fix = "divide by 100: a probability lies in [0, 1]"
        yield Finding(
            kind="bad rows",
            severity="problem",
            says=f"{format_share(each.count, rows)} rows cannot be read: {each.problem}",
            fix=fix,
            count=each.count,
            of=rows,
            examples=each.examples,
        )


def find_unfinished(facts: Facts) -> Iterator[Finding]:
    """Yield the calls or judgments still to be made, according to the manifest or journal."""
    for file, lack in facts.unfinished:
        yield Finding(
            kind="unfinished",
            severity="warning",
            says=f"{file}: {lack}",
            fix="run or judge again with the same output: only what is missing is called",
            count=1,
            of=len(facts.files),
            examples=(file,),
        )


def find_failed_calls(facts: Facts) -> Iterator[Finding]:
    """Yield a finding per system with failed calls; failures may be the harder tasks."""
    parts = facts.rows.partition_by(SYSTEM, as_dict=True, maintain_order=True)
    for (system,), rows in sorted(parts.items()):
        failed = rows.filter(FAILED)
        if not failed.height:
            continue
        kinds = failed[ERROR].value_counts(sort=True).rows()[:3]
        told = ", ".join(f"{kind} {count:,}" for kind, count in kinds)
        yield facts.make_finding(
            "failed calls",
            "warning" if failed.height > _MANY_FAILED * rows.height else "note",
            f"{format_share(failed.height, rows.height)} calls failed ({told}) "
            "and count in no metric",
            fix="call them again, or count them as failures: --errors fail",
            rows=failed,
            of=rows,
            system=system,
        )
