"""The result of judging: how many records are judged, how many judgments failed, the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from calipers.judges.models import Judgment
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS
from calipers.support.quick_dataclasses import dataclass
from calipers.support.tabular import Tabular

if TYPE_CHECKING:
    import polars as pl

COUNTED = ("prompt_tokens", "completion_tokens", "cost_usd")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What one model of the judges used."""

    model: str
    judgments: int
    tokens: float
    cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCounts:
    """How pairs of answers were decided; a pair without a winner was not judged in both orders."""

    a: str
    b: str
    a_wins: int
    b_wins: int
    ties: int
    inconsistent: int  # of the ties: the two orders named different winners
    undecided: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFiles(Tabular):
    """The counts and costs of judging; as a table, the judged records."""

    output: str
    records: int
    judged: int
    failed: int  # judgments
    not_judged: int  # records without what the judge reads, or of calls that failed
    flagged: int
    cut: int
    escalated: int  # judgments that a second, better judge made
    tokens: float
    cost_usd: float | None
    by_model: tuple[ModelUse, ...]
    failures: tuple[tuple[int, str], ...]  # why there are no scores, and how often
    bad_rows: int = 0  # that were left out
    interrupted: bool = False
    spent: bool = False  # the budget does not allow another call
    notices: tuple[str, ...] = ()
    pairs: PairCounts | None = None  # where answers were compared in pairs

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as Python values."""
        failures = [{"count": count, "reason": reason} for count, reason in self.failures]
        return asdict(self) | {"failures": failures}

    def to_polars(self) -> pl.DataFrame:
        """Return the judged records; where answers were compared, a row per pair."""
        from calipers.records.api import read  # noqa: PLC0415 (only where they are asked for)

        return read(self.output)

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 where a judgment is missing."""
        missing = self.failed or self.interrupted or self.spent
        return EXIT_INCOMPLETE if missing else EXIT_PASS


def sum_judgments(
    output: str,
    records: Sequence[Sequence[Judgment] | None],
    *,
    bad_rows: int,
    interrupted: bool,
    spent: bool = False,
    notices: tuple[str, ...] = (),
) -> JudgedFiles:
    """Sum over the judgments of each record; None for a record of a failed call."""
    called = [each for each in records if each is not None]
    found = [each for judgments in called for each in judgments]
    costs = [each.fields["cost_usd"] for each in found if "cost_usd" in each.fields]
    reasons = Counter(str(e.fields["reason"]) for e in found if e.fields["scores"] is None)
    scored = [any(each.fields["scores"] is not None for each in one) for one in called]
    tried = [any(each.failed for each in one) for one in called]
    told = sum(map(max, scored, tried))
    return JudgedFiles(
        output=output,
        records=len(records),
        judged=sum(scored),
        failed=sum(each.failed for each in found),
        not_judged=0 if interrupted or spent else len(records) - told,
        flagged=sum(any(each.fields["flags"] for each in one) for one in called),
        cut=sum(any(each.fields.get("cut") for each in one) for one in called),
        escalated=sum("escalated" in each.fields for each in found),
        tokens=sum(each.fields.get(name, 0) for each in found for name in COUNTED[:2]),
        cost_usd=sum(costs) if len(costs) == len(found) and costs else None,
        by_model=tuple(_sum_by_model(found)),
        failures=tuple((count, reason) for reason, count in reasons.most_common(5)),
        bad_rows=bad_rows,
        interrupted=interrupted,
        spent=spent,
        notices=notices,
    )


def _sum_by_model(found: Sequence[Judgment]) -> Iterator[ModelUse]:
    """Yield what each model used, whether its judgment was final or not."""
    used: dict[str, list[Mapping[str, Any]]] = {}
    for each in found:
        for part in each.fields.get("usage", [each.fields]):
            used.setdefault(str(part["model"]), []).append(part)
    for model, parts in used.items():
        costs = [part["cost_usd"] for part in parts if "cost_usd" in part]
        yield ModelUse(
            model=model,
            judgments=len(parts),
            tokens=sum(part.get(name, 0) for part in parts for name in COUNTED[:2]),
            cost_usd=sum(costs) if len(costs) == len(parts) else None,
        )
