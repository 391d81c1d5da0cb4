"""The measured values of many groups, held in columns: a group is made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from calipers.metrics.declare.columns import pick
from calipers.scores.result import Group, Measured
from calipers.statistics.elementwise import is_number, is_text
from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEPT = 4_000  # groups that are made once and kept, as those of a report are
NUMBERS = ("value", "low", "high", "stderr")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredColumn:
    """A metric in many groups: the parts of `Measured` as columns, or as one value for all.

    NaN stands for null among numbers, None among texts. `remarks` are extras that only some groups
    have: those where the text is not None.
    """

    value: Any
    n: Any
    missing: Any
    low: Any
    high: Any
    stderr: Any
    method: str  # of the interval, where there is one
    reason: Any
    interval_reason: Any
    scope: Any
    worth: Any
    extras: Mapping[str, Any]
    remarks: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_interval(self) -> NDArray[np.bool_]:
        """Where there is a bound."""
        return np.asarray(is_number(self.low) | is_number(self.high))

    @property
    def has_value(self) -> NDArray[np.bool_]:
        """Where there is a value."""
        has_none: NDArray[np.bool_] = np.asarray(is_text(self.reason)) == 0
        return has_none

    @property
    def is_alike(self) -> bool:
        """Whether all groups have the same value and bounds."""
        return all(len(np.unique(part)) == 1 for part in (self.value, self.low, self.high))

    def take(self, place: int) -> Measured:
        """Return the metric in one group."""
        value, low, high, stderr, worth = (
            _drop_nan(pick(getattr(self, name), place)) for name in (*NUMBERS, "worth")
        )
        reason = pick(self.reason, place)
        remarks = {name: pick(text, place) for name, text in self.remarks.items()}
        return Measured(
            value=value if reason is None else None,
            n=pick(self.n, place),
            missing=pick(self.missing, place),
            reason=reason,
            low=low,
            high=high,
            stderr=stderr,
            interval=None if low is None and high is None else self.method,
            interval_reason=pick(self.interval_reason, place),
            scope=pick(self.scope, place),
            worth=worth,
            extras={name: _drop_nan(pick(extra, place)) for name, extra in self.extras.items()}
            | {name: text for name, text in remarks.items() if text is not None},
        )


def _drop_nan(value: Any) -> Any:
    return None if value != value else value  # noqa: PLR0124 (NaN)


@dataclass(frozen=True, slots=True, eq=False)
class GroupColumns(Sequence[Group]):  # noqa: PLW1641 (its groups have no hash either)
    """The groups of a score in the order to show them; equal to a tuple of the same groups."""

    by: Sequence[Mapping[str, Any]]  # the fields of each group, in that order
    places: NDArray[np.int64]  # of these groups in the columns
    counts: Mapping[str, NDArray[np.int64]]  # records, errors, truncated, failures
    flagged: Any  # judged records that are flagged, NaN where none is judged
    metrics: Mapping[str, MeasuredColumn]
    _made: dict[int, Group] = field(default_factory=dict)  # of no more groups than a page shows

    def __len__(self) -> int:
        return len(self.by)

    @overload
    def __getitem__(self, at: int) -> Group: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Group, ...]: ...
    def __getitem__(self, at: int | slice) -> Group | tuple[Group, ...]:
        if isinstance(at, slice):
            return tuple(map(self._make_group, range(len(self))[at]))
        return self._make_group(range(len(self))[at])

    def __iter__(self) -> Iterator[Group]:
        return map(self._make_group, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupColumns | tuple):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def list_warnings(self, places: NDArray[np.int64]) -> NDArray[Any] | None:
        """Return what to know before relying on some groups, None where nothing; or None."""
        counts = {name: count[places] for name, count in self.counts.items()}
        has_failed = (counts["errors"] > 0) | (counts["failures"] > 0)
        if not has_failed.any():
            return None
        warnings = np.full(len(places), None, dtype=object)
        for at in np.flatnonzero(has_failed).tolist():
            of_group: dict[str, Any] = {name: int(count[at]) for name, count in counts.items()}
            warnings[at] = Group(by={}, metrics={}, **of_group).warning
        return warnings

    def sum_counts(self, name: str) -> int:
        """Return a count, such as `records`, over all groups."""
        return int(self.counts[name].sum())

    def _make_group(self, at: int) -> Group:
        if at not in self._made:
            made = self._put_together(at)
            if len(self) > _KEPT:
                return made
            self._made[at] = made
        return self._made[at]

    def _put_together(self, at: int) -> Group:
        place = int(self.places[at])
        flagged = pick(self.flagged, place)
        counts: dict[str, Any] = {name: pick(count, place) for name, count in self.counts.items()}
        return Group(
            by=self.by[at],
            metrics={name: column.take(place) for name, column in self.metrics.items()},
            flagged=flagged,
            **counts,
        )
