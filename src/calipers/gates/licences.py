"""A judge's licence: a blocking check based on a judge requires a calibration of that judge.

A licence is bound to the model and the rubric's hash: another model, or one changed word in the
rubric, revokes it. A panel is licensed as a whole, or by the licences of all its members. A licence
does not hold for the records that its calibration was made from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import ceil, floor, inf
from typing import Any

from calipers.gates.policy import Judges
from calipers.gates.result import Check
from calipers.gates.threshold_test import Verdict
from calipers.metrics.provenance import ASPECTS
from calipers.scores.calibration import (
    CALIBRATE,
    SENSITIVITY,
    SPECIFICITY,
    Calibration,
    Member,
    describe_overlap,
    sort_members,
)
from calipers.scores.result import JudgedBy
from calipers.statistics.estimates import Estimate

_TOLD = 3  # reasons in a check
_ROUNDING = 1e-9
_SILENT = 0.05  # share of the rows: a licensed panel may lack a member on no more
LICENCE_FIX = (
    "have this judge, as it is now, judge records that people have rated, "
    f"then {CALIBRATE}, then judges: {{calibrations: [calibration.json]}} in the policy"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The licence of a judge to block a build: by which calibration, or why it has none."""

    value: str
    by: tuple[Member, ...]
    rows: int
    licensed: bool
    kappa: float | None = None
    low: float | None = None
    sensitivity: float | None = None
    specificity: float | None = None
    calibration: str | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        by = [{"model": model, "rubric_hash": of or None} for model, of in self.by]
        return {**asdict(self), "by": by, **({} if self.licensed else {"fix": LICENCE_FIX})}


@dataclass(frozen=True, slots=True)
class Licences:
    """Who judged a group's records, and the calibrations that may license them."""

    judges: Sequence[JudgedBy]
    calibrations: Sequence[Calibration]
    demands: Judges
    confidence: float  # of the gate

    def apply(self, check: Check, values: Collection[str]) -> Check:
        """Return the check with its evidence; without a licence it fails, or only warns."""
        evidences = [self.find_evidence(judge) for judge in self.judges if judge.value in values]
        if not evidences:
            return check
        lacking = [evidence for evidence in evidences if not evidence.licensed]
        check = replace(check, evidence=tuple(evidence.to_dict() for evidence in evidences))
        if not lacking:
            return check
        warns = check.level == "warning" or self.demands.uncalibrated == "warn"
        verdict: Verdict = "fail"
        if warns and check.verdict != "fail":
            verdict = "warn" if check.verdict == "pass" else check.verdict
        return check.add_reason(f"no licence: {'; '.join(_list_reasons(lacking))}", verdict=verdict)

    def find_evidence(self, judged: JudgedBy) -> Evidence:
        """Return whether one judge or panel has a licence for a judged value."""
        members = sort_members(m for m in judged.members if m[0] not in self.demands.people)
        aspect = ASPECTS[judged.value]
        of = partial(
            Evidence, value=judged.value, by=judged.members, rows=judged.rows, licensed=False
        )
        if not judged.members:
            return of(reason="too many different judges and panels to be told apart")
        if not members:
            return of(licensed=True)  # people judged
        whole = self._find_panel(judged, members)
        kappa = partial(self._find_kappa, judged, aspect)
        estimate = kappa(members) or kappa(whole)
        if estimate is None:
            of_members = [kappa((who,)) for who in members]
            if None in of_members:
                overlap = self._explain_overlap(judged, aspect, {members, whole})
                return of(reason=overlap or self._explain(members, aspect))
            estimate = min(filter(None, of_members), key=self._rank_surety)
        weakest, by = estimate
        evidence = of(
            kappa=weakest.value,
            low=weakest.low,
            sensitivity=by.rate(SENSITIVITY, aspect),
            specificity=by.rate(SPECIFICITY, aspect),
            calibration=by.source,
        )
        if by.confidence < self.confidence:
            reason = (
                f"{_join_names(members)} was calibrated with {100 * by.confidence:g} % intervals, "
                f"the gate's have {100 * self.confidence:g} %: calibrate with --confidence "
                f"{self.confidence:g}"
            )
            return replace(evidence, reason=reason)
        if weakest.low is not None and weakest.low >= self.demands.floor:
            return replace(evidence, licensed=True, reason=None)
        return replace(evidence, reason=_describe_kappa(members, weakest, self.demands.floor))

    def _find_kappa(
        self, judged: JudgedBy, aspect: str, members: tuple[Member, ...] | None
    ) -> tuple[Estimate, Calibration] | None:
        """Return the kappa with the highest bound among the calibrations of exactly these judges.

        Calibrations that were made from any of the judged records do not count.
        """
        bound = (
            calibration
            for place, calibration in enumerate(self.calibrations)
            if calibration.members == members and not judged.rated.get(place)
        )
        estimates = [(kappa, e) for e in bound if (kappa := e.kappa(aspect)) is not None]
        return max(estimates, key=self._rank_surety, default=None)

    def _rank_surety(self, estimate: tuple[Estimate, Calibration]) -> tuple[bool, float]:
        kappa, calibration = estimate
        return calibration.confidence >= self.confidence, -inf if kappa.low is None else kappa.low

    def _find_panel(
        self, judged: JudgedBy, members: tuple[Member, ...]
    ) -> tuple[Member, ...] | None:
        """Return the panel of these judges, if its other members lack answers on a few rows."""
        of_value = [judge for judge in self.judges if judge.value == judged.value]
        if judged.rows > _SILENT * sum(judge.rows for judge in of_value):
            return None
        panels = [sort_members(judge.members) for judge in of_value]
        return next((panel for panel in panels if set(members) < set(panel)), None)

    def _explain_overlap(
        self, judged: JudgedBy, aspect: str, panels: Collection[tuple[Member, ...] | None]
    ) -> str | None:
        """Return the reason that a calibration of these was made from the judged records, if so."""
        bound = {*panels, *((who,) for members in panels for who in members or ())}
        for place, calibration in enumerate(self.calibrations):
            overlap = judged.rated.get(place)
            if overlap and calibration.members in bound and calibration.kappa(aspect) is not None:
                return (
                    f"{describe_overlap(calibration, overlap, judged.rows)}, and a calibration is "
                    "no evidence for the records that it was made from: have people rate others"
                )
        return None

    def _explain(self, members: tuple[Member, ...], aspect: str) -> str:
        """Return why these have no calibration: never made, revoked, or of something else."""
        known = {calibration.members for calibration in self.calibrations}
        unknown = [who for who in members if (who,) not in known]
        if not unknown:
            return f"the calibration of {_join_names(members)} does not cover {aspect}"
        who = unknown[0]
        calibrated = [member for calibration in self.calibrations for member in calibration.members]
        for model, rubric_hash in calibrated:
            if model == who[0]:
                return (
                    f"the rubric of {model} is not the one that was calibrated: "
                    f"hash {who[1] or 'unknown'}, not {rubric_hash or 'unknown'}"
                )
        for model, rubric_hash in calibrated:
            if rubric_hash and rubric_hash == who[1]:
                return f"this rubric was calibrated with {model}, not with {who[0]}"
        return f"not calibrated against human ratings: {_join_names(unknown)}"


def note_licences(checks: Iterable[Check]) -> Iterator[str]:
    """Yield what to do if a judge has no licence."""
    if any(not evidence["licensed"] for check in checks for evidence in check.evidence):
        yield f"judges without a licence: {LICENCE_FIX}; or judges: {{uncalibrated: warn}}"


def _describe_kappa(members: tuple[Member, ...], kappa: Estimate, least: float) -> str:
    """Return why κ is not sufficient: too little agreement, or too few records to be sure."""
    who, records = _join_names(members), f"{kappa.n:,} record{'' if kappa.n == 1 else 's'}"
    if kappa.value is not None and kappa.value < least:
        bound = "" if kappa.low is None else f", its lower bound {_round_down(kappa.low)}"
        return (
            f"{who} agrees too little with people: κ is {_round_down(kappa.value)}{bound}, "
            f"required {least:g}"
        )
    if kappa.low is None:
        why = kappa.reason or f"{records} give no interval"
        return f"the lower bound of κ is unknown for {who}: {why}"
    too_few = "is too few" if kappa.n == 1 else "are too few"
    low = _round_down(kappa.low)
    more = count_missing_ratings(kappa, least)
    enough = "" if more is None else f"; about {more:,} more rated records would do"
    return f"{who}: {records} {too_few}: the lower bound of κ is {low}, required {least:g}{enough}"


def count_missing_ratings(kappa: Estimate, least: float) -> int | None:
    """Return about how many more rated records lift the lower bound of κ to `least`.

    The bound comes closer to κ with the root of the number of records. 0 where it is there; None
    where κ itself is too low, so that more records would not help, or where it has no interval.

    >>> count_missing_ratings(Estimate(value=0.8, low=0.5, n=50), 0.6)
    63
    """
    if kappa.value is None or kappa.low is None or kappa.value <= least:
        return None
    if kappa.low >= least:
        return 0
    shrink = (kappa.value - kappa.low) / (kappa.value - least)
    return ceil(kappa.n * (shrink**2 - 1) - _ROUNDING)


def _round_down(value: float) -> str:
    """Return two decimals, rounded down: a bound below the floor is never shown as the floor."""
    return f"{floor(100 * value + _ROUNDING) / 100:.2f}"


def _join_names(members: Sequence[Member]) -> str:
    return " and ".join(f"{model} (rubric {of})" if of else model for model, of in members)


def _list_reasons(lacking: Sequence[Evidence]) -> Iterator[str]:
    """Yield the first few reasons, each once; those of a panel cover its parts."""
    bigger = [set(evidence.by) for evidence in lacking]
    whole = (e for e in lacking if not e.by or not any(set(e.by) < other for other in bigger))
    reasons = list(
        dict.fromkeys(evidence.reason for evidence in whole if evidence.reason is not None)
    )
    yield from reasons[:_TOLD]
    if len(reasons) > _TOLD:
        yield f"and {len(reasons) - _TOLD:,} more"
