"""`progressive`: thresholds that rise from release to release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar, Self

from pydantic import PlainValidator

from calipers.gates.policy_fields import SAID, THRESHOLD, Schema, SchemaOf, make_metric_schema
from calipers.gates.policy_values import Rule, read_by_name, read_rules
from calipers.gates.rules.thresholds import MetricRules
from calipers.support.config.files import shown
from calipers.support.config.models import refuse
from calipers.support.errors import UsageError, nearest
from calipers.support.quick_dataclasses import dataclass

_RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressive(MetricRules):
    """A row of thresholds per release; all of them block."""

    key: ClassVar[str] = "progressive"
    source: ClassVar[str] = key
    label: ClassVar[str] = " (release)"

    release: str | None = None  # the current one, unless the command line names another
    rows: Mapping[str, Mapping[str, Rule]] = field(default_factory=dict)

    @classmethod
    def as_field(cls) -> tuple[Any, Any]:
        """Return the type of its key, whose names are the user's own."""
        return Annotated[cls, PlainValidator(_read), SchemaOf(_make_schema)] | None, None

    @classmethod
    def make_default(cls) -> Self:
        """Return one without rows, which refuses --release."""
        return cls()

    @property
    def decides(self) -> bool:
        return bool(self.rows)

    def get_row(self, asked: str | None) -> Mapping[str, Rule]:
        """Return the thresholds of the release asked for, or of the current one."""
        if not self.rows:
            if asked is not None:
                raise UsageError(
                    f"--release {shown(asked)}: the policy has no progressive thresholds",
                    fix="write them: progressive: {v1.0: {accuracy: 80}, v2.0: {accuracy: 85}}",
                )
            return {}
        chosen = asked or self.release
        if chosen is None:
            raise UsageError(
                "the policy's thresholds depend on the release, and none is named",
                fix=f"--release {' or '.join(map(shown, self.rows))}; or progressive.release",
            )
        if chosen not in self.rows:
            raise UsageError(
                f"--release {shown(chosen)}: there is no such row", fix=nearest(chosen, self.rows)
            )
        return self.rows[chosen]


def _read(table: Any) -> Progressive:
    """Return a row of thresholds per release, and perhaps the release that is the current one."""
    release = table.get(_RELEASE) if isinstance(table, Mapping) else None
    if release is not None:
        table = {key: row for key, row in table.items() if key != _RELEASE}
    rows = read_by_name(table, lambda _, row: read_rules(row))
    if release is not None and (isinstance(release, list | dict) or release not in rows):
        refuse(
            f"release is {shown(release)}, and there is no such row",
            fix=nearest(str(release), rows),
            at=(_RELEASE,),
        )
    return Progressive(release=release, rows=rows)


def _make_schema() -> Schema:
    current = {"type": "string", "description": "The current release; --release overrides it."}
    return {
        "type": "object",
        "properties": {"description": SAID, _RELEASE: current},
        "additionalProperties": make_metric_schema(THRESHOLD),
    }
