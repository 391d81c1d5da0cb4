"""A judge's licence: a blocking check based on a judge requires a calibration of that judge.

A licence is bound to the model and the rubric's hash: another model, or one changed word in the
rubric, revokes it. A panel is licensed as a whole, or by the licences of all its members. A licence
does not hold for the records that its calibration was made from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from math import floor, inf
from typing import Any

from calipers.gates.policy import Judges
from calipers.gates.result import Check
from calipers.gates.verdicts import Verdict
from calipers.metrics.judged.who import ASPECTS
from calipers.scores.calibration import (
    CALIBRATE,
    SENSITIVITY,
    SPECIFICITY,
    Calibration,
    Member,
    describe_overlap,
    read_members,
)
from calipers.scores.results import JudgedBy
from calipers.statistics.estimates import Estimate
from calipers.support.quick_dataclasses import dataclass

_TOLD = 3  # reasons in a check
_ROUNDING = 1e-9
_SILENT = 0.05  # share of the rows: a licensed panel may lack a member on no more
HOW = (
    "have this judge, as it is now, judge records that people have rated, "
    f"then {CALIBRATE}, then judges: {{calibrations: [calibration.json]}} in the policy"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Whether a judge may block a build, by which calibration, or why not."""

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
        return {**asdict(self), "by": by, **({} if self.licensed else {"fix": HOW})}


@dataclass(frozen=True, slots=True)
class Licences:
    """Who judged a group's records, and the calibrations that may license them."""

    judges: Sequence[JudgedBy]
    calibrations: Sequence[Calibration]
    demands: Judges
    confidence: float  # of the gate

    def apply(self, check: Check, values: Collection[str]) -> Check:
        """Return the check with its evidence; without a licence it fails, or only warns."""
        found = [self.find_evidence(each) for each in self.judges if each.value in values]
        if not found:
            return check
        lacking = [each for each in found if not each.licensed]
        check = replace(check, evidence=tuple(each.to_dict() for each in found))
        if not lacking:
            return check
        warns = check.level == "warning" or self.demands.uncalibrated == "warn"
        verdict: Verdict = "fail"
        if warns and check.verdict != "fail":
            verdict = "warn" if check.verdict == "pass" else check.verdict
        return check.add_reason(f"no licence: {'; '.join(_list_reasons(lacking))}", verdict=verdict)

    def find_evidence(self, judged: JudgedBy) -> Evidence:
        """Return whether one judge or panel has a licence for a judged value."""
        members = read_members(m for m in judged.members if m[0] not in self.demands.people)
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
        found = kappa(members) or kappa(whole)
        if found is None:
            of_members = [kappa((who,)) for who in members]
            if None in of_members:
                overlap = self._explain_overlap(judged, aspect, {members, whole})
                return of(reason=overlap or self._explain(members, aspect))
            found = min(filter(None, of_members), key=self._rank_surety)
        weakest, by = found
        told = of(
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
            return replace(told, reason=reason)
        if weakest.low is not None and weakest.low >= self.demands.floor:
            return replace(told, licensed=True, reason=None)
        return replace(told, reason=_describe_kappa(members, weakest, self.demands.floor))

    def _find_kappa(
        self, judged: JudgedBy, aspect: str, members: tuple[Member, ...] | None
    ) -> tuple[Estimate, Calibration] | None:
        """Return the kappa with the highest bound among the calibrations of exactly these judges.

        Calibrations that were made from any of the judged records do not count.
        """
        bound = (
            each
            for place, each in enumerate(self.calibrations)
            if each.members == members and not judged.rated.get(place)
        )
        found = [(kappa, e) for e in bound if (kappa := e.kappa(aspect)) is not None]
        return max(found, key=self._rank_surety, default=None)

    def _rank_surety(self, found: tuple[Estimate, Calibration]) -> tuple[bool, float]:
        kappa, calibration = found
        return calibration.confidence >= self.confidence, -inf if kappa.low is None else kappa.low

    def _find_panel(
        self, judged: JudgedBy, members: tuple[Member, ...]
    ) -> tuple[Member, ...] | None:
        """Return the panel of these judges, if its other members lack answers on a few rows."""
        of_value = [each for each in self.judges if each.value == judged.value]
        if judged.rows > _SILENT * sum(each.rows for each in of_value):
            return None
        panels = [read_members(each.members) for each in of_value]
        return next((each for each in panels if set(members) < set(each)), None)

    def _explain_overlap(
        self, judged: JudgedBy, aspect: str, panels: Collection[tuple[Member, ...] | None]
    ) -> str | None:
        """Return the reason that a calibration of these was made from the judged records, if so."""
        bound = {*panels, *((who,) for members in panels for who in members or ())}
        for place, each in enumerate(self.calibrations):
            overlap = judged.rated.get(place)
            if overlap and each.members in bound and each.kappa(aspect) is not None:
                return (
                    f"{describe_overlap(each, overlap, judged.rows)}, and a calibration is no "
                    "evidence for the records that it was made from: have people rate others"
                )
        return None

    def _explain(self, members: tuple[Member, ...], aspect: str) -> str:
        """Return why these have no calibration: never made, revoked, or of something else."""
        known = {each.members for each in self.calibrations}
        unknown = [who for who in members if (who,) not in known]
        if not unknown:
            return f"the calibration of {_join_names(members)} does not cover {aspect}"
        who = unknown[0]
        calibrated = [member for each in self.calibrations for member in each.members]
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
    if any(not each["licensed"] for check in checks for each in check.evidence):
        yield f"judges without a licence: {HOW}; or judges: {{uncalibrated: warn}}"


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
        said = kappa.reason or f"{records} give no interval"
        return f"the lower bound of κ is unknown for {who}: {said}"
    too_few = "is too few" if kappa.n == 1 else "are too few"
    low = _round_down(kappa.low)
    return f"{who}: {records} {too_few}: the lower bound of κ is {low}, required {least:g}"


def _round_down(value: float) -> str:
    """Return two decimals, rounded down: a bound below the floor is never shown as the floor."""
    return f"{floor(100 * value + _ROUNDING) / 100:.2f}"


def _join_names(members: Sequence[Member]) -> str:
    return " and ".join(f"{model} (rubric {of})" if of else model for model, of in members)


def _list_reasons(lacking: Sequence[Evidence]) -> Iterator[str]:
    """Yield the first few reasons, each once; those of a panel cover its parts."""
    bigger = [set(each.by) for each in lacking]
    whole = (e for e in lacking if not e.by or not any(set(e.by) < other for other in bigger))
    found = list(dict.fromkeys(each.reason for each in whole if each.reason is not None))
    yield from found[:_TOLD]
    if len(found) > _TOLD:
        yield f"and {len(found) - _TOLD:,} more"
