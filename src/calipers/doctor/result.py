"""What an examination of files found: what they hold and support, and what looks wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from calipers.records.column_hints import is_time_without_unit
from calipers.support.errors import EXIT_ERROR, EXIT_FAILED, EXIT_INCOMPLETE, EXIT_PASS
from calipers.support.printing import Printed, Tabular
from calipers.support.strict_json import to_plain, to_plain_fields
from calipers.support.version import __version__

SCHEMA = "calipers.doctor/1"
_PLACE = re.compile(r"^row \d+$|:\d+$")

Severity = Literal["problem", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("problem", "warning", "note")
"""Numbers are wrong; numbers may mislead; worth knowing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that looks wrong: how often, where to see it, and what to do."""

    kind: str
    severity: Severity
    says: str
    fix: str
    count: int  # of records or tasks
    of: int
    system: str | None = None  # None where it is about all records
    examples: tuple[str, ...] = ()  # ids of tasks, or places in files

    @property
    def of_tasks(self) -> bool:
        """Return True if the examples are ids of tasks, not places in files."""
        return not any(_PLACE.search(example) for example in self.examples)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one finding."""
        return to_plain_fields(self)


def format_share(count: int, of: int) -> str:
    """Return a count with its share in words.

    >>> format_share(3, 120)
    '3 of 120 (2.5 %)'
    """
    return f"{count:,} of {of:,} ({100 * count / of:.2g} %)" if count < of else f"all {of:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldField:
    """A column of a file: which field of the record it is, and how many records have it."""

    name: str
    field: str | None  # None for one of the user's own
    records: int
    map_to: str | None = None  # the record's field that it looks like


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFile:
    """What one file holds; or why it cannot be read, and what to do."""

    path: str
    format: str
    records: int = 0
    errors: int = 0  # records of failed calls
    bad_rows: int = 0
    fields: tuple[HeldField, ...] = ()
    inside: tuple[str, ...] = ()  # paths into nested columns, of lists the first element
    tool: str | None = None  # whose rows they look like
    unreadable: str | None = None
    fix: str | None = None

    @property
    def maps(self) -> dict[str, str]:
        """The record's fields that columns look like, each with the column's name."""
        return {column.map_to: column.name for column in self.fields if column.map_to is not None}

    @property
    def times(self) -> list[str]:
        """The columns that are called times, without a unit."""
        unread = (column.name for column in self.fields if column.field is None)
        return [name for name in unread if is_time_without_unit(name)]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one file."""
        return {**to_plain_fields(self), "map": self.maps}


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The smallest difference between two systems that would be seen, or why none would."""

    metric: str
    systems: tuple[str, ...]  # two, or one where the other is assumed to vary alike
    tasks: int
    value: float | None = None
    power: float = 0.8
    confidence: float = 0.95
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """The questions that the records can answer."""

    tasks: int
    systems: tuple[str, ...]
    runs: tuple[int, int]  # of a task by a system: the fewest and the most
    pairs: int  # of systems that share tasks
    common_tasks: int  # tasks that all systems have
    metrics: tuple[str, ...]
    with_map: tuple[str, ...]  # further metrics, once the fields are mapped
    share: float = 1.0  # of the tasks that were held; counts of tasks are estimates below 1
    detectable: Detectable | None = None  # None where there is no accuracy, pass rate or score

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of what is supported."""
        fewest, most = self.runs
        return {**to_plain_fields(self), "runs": {"fewest": fewest, "most": most}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Printed, Tabular):
    """What files hold and support, what looks wrong, and what to run next. Prints as tables."""

    files: tuple[HeldFile, ...]
    support: Support | None  # None where no record could be read
    findings: tuple[Finding, ...]
    commands: tuple[str, ...]
    notices: tuple[str, ...] = ()
    strict: bool = field(default=False, kw_only=True)

    @property
    def records(self) -> int:
        """The number of records that could be read."""
        return sum(file.records for file in self.files)

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 2 for an unreadable file, 3 for no record at all.

        Findings are no failure, unless `strict`: then a problem or warning is 1.
        """
        if any(file.unreadable for file in self.files):
            return EXIT_ERROR
        if not self.records:
            return EXIT_INCOMPLETE
        serious = any(finding.severity != "note" for finding in self.findings)
        return EXIT_FAILED if self.strict and serious else EXIT_PASS

    def counts(self) -> Mapping[Severity, int]:
        """Return how many findings there are of each severity."""
        return {
            severity: sum(f.severity == severity for f in self.findings) for severity in SEVERITIES
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON, as Python values."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "records": self.records,
            "files": to_plain(self.files),
            "support": to_plain(self.support),
            "findings": to_plain(self.findings),
            "commands": list(self.commands),
            **({"notices": list(self.notices)} if self.notices else {}),
        }

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per finding."""
        for finding in self.findings:
            yield {**asdict(finding), "examples": ", ".join(finding.examples)}
