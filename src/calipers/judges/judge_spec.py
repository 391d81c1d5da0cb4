"""The judges of a suite: model, rubric, samples, and the second judge for unsure judgments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from calipers.support.errors import UsageError
from calipers.support.strict_json import name_with_settings
from calipers.systems.budget import GIVE_PRICE, find_pricing
from calipers.systems.spec import ServedModel, Settings, Text


class Escalate(ServedModel):
    """The judge that is asked if the first one is unsure, or gives no usable answer."""

    settings: Settings = Field(
        default_factory=dict, description="Settings of the model: temperature, max_tokens, …"
    )
    near: float = Field(
        default=0.1,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Scores within this distance of the rubric's pass_at are unsure.",
    )
    confidence: float | None = Field(
        default=None,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="Ask the first judge for its confidence; below this it is unsure.",
    )
    flagged: bool = Field(
        default=True, description="Escalate texts that seem to address the judge."
    )


class JudgeSpec(ServedModel):
    """A model that grades the answers of the systems."""

    name: Text = Field(description="Name of the judge in the records.")
    rubric: Text = Field(
        description="technical_accuracy, constructiveness, planning_rationality, or a rubric file."
    )
    limit: int | None = Field(
        default=None, ge=100, description="Cut texts to so many characters, not as the rubric says."
    )
    settings: Settings = Field(
        default_factory=dict, description="Settings of the model: temperature, max_tokens, …"
    )
    samples: int = Field(
        default=1, ge=1, le=100, description="Judgments of each record; a seed increases with each."
    )
    escalate: Escalate | None = Field(
        default=None, description="A second, better judge for records that this one is unsure of."
    )

    @property
    def default_settings(self) -> dict[str, Any]:
        """The default settings: temperature 0, unless several samples have to differ."""
        return {"temperature": 0} if self.samples == 1 else {}

    @property
    def own_settings(self) -> dict[str, Any]:
        """The settings that differ from the defaults, which make it another judge."""
        default = self.default_settings
        return {
            name: value
            for name, value in self.settings.items()
            if name != "seed" and (name not in default or default[name] != value)
        }

    @property
    def asks_confidence(self) -> bool:
        """Return True if the first model is asked how sure it is."""
        return self.escalate is not None and self.escalate.confidence is not None

    @property
    def models(self) -> list[JudgeSpec]:
        """The judge and, where it has one, the second one, each as a judge of its own."""
        if self.escalate is None:
            return [self]
        shared = self.model_dump(include={"name", "rubric", "limit", "samples"})
        second = self.escalate.model_dump(exclude={"near", "confidence", "flagged"})
        return [self, JudgeSpec.model_validate(shared | second)]

    @property
    def answerable(self) -> str:
        """What identifies the judge in a calibration: its model, or both of a cascade."""
        if (then := self.escalate) is None:
            return name_with_settings(self.model, self.own_settings)
        first, second = (
            name_with_settings(model.model, model.own_settings) for model in self.models
        )
        sure = "" if then.confidence is None else f", confidence {then.confidence:g}"
        flagged = "" if then.flagged else ", flags ignored"
        return f"{first} → {second} (near {then.near:g}{sure}{flagged})"


def require_prices(judges: Sequence[JudgeSpec]) -> None:
    """Refuse judges without known prices, for which a budget in dollars cannot be kept."""
    for judge in (model for spec in judges for model in spec.models):
        if find_pricing(judge) is None:
            raise UsageError(
                f"budget_usd: no price is known for the judge {judge.name} ({judge.model})",
                fix=GIVE_PRICE,
            )
