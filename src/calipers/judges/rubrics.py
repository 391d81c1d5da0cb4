"""The rubric of a judge: criteria on a scale, or items with points in categories.

A rubric with `pass_at` decides: its judgments have `weighted_score`, which is `impl_rate`, and
`passed`. Without it they have `overall_score`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from calipers.judges.rubric_items import MarkedItem, NoSum, sum_weighted
from calipers.support.config.files import ConfigFile, read_config, shown
from calipers.support.config.models import StrictModel, describe_first, refuse
from calipers.support.errors import UsageError
from calipers.support.registry import Registry, add_registry

EXAMPLE = "for example categories: [{name: function, items: [{name: runs, points: 2, says: …}]}]"
LIMIT = 2000  # characters of a text that a judge reads, as specs/003 has it
_ROUNDING = 1e-9
_FORM = 2  # version of the request: a change makes another judge

Text = Annotated[str, Field(min_length=1)]
_MOST = 1e6  # larger weights would swamp the others, or overflow
Positive = Annotated[float, Field(gt=0, le=_MOST, allow_inf_nan=False)]
Score = int | float | None  # None: it does not apply


class Reads(StrictModel):
    """A text that the judge is given."""

    name: Text = Field(description="What the text is called in the request.")
    field: Text = Field(description="The field of the record; a trace is summarised.")
    limit: int | None = Field(
        default=LIMIT, ge=100, description="Most characters of the text; null for no limit."
    )


class Criterion(StrictModel):
    """Something that is scored on the rubric's scale."""

    name: Text
    says: Text
    weight: Positive = 1.0


class Item(StrictModel):
    """Something that is worth points."""

    name: Text
    says: Text
    points: Positive
    may_not_apply: bool = False


class Category(StrictModel):
    """Items with a common weight."""

    name: Text
    weight: Positive | None = None
    items: list[Item] = Field(min_length=1)


class Rubric(StrictModel):
    """The texts that a judge reads, and how it grades them."""

    name: Text
    question: Text
    reads: list[Reads] = Field(
        default=[Reads(name="task", field="input"), Reads(name="answer", field="answer")],
        min_length=1,
    )
    criteria: list[Criterion] = Field(default_factory=list)
    lowest: float = Field(default=1, allow_inf_nan=False)
    highest: float = Field(default=5, gt=0, le=_MOST, allow_inf_nan=False)
    divide_by: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Divide the sum by this; by default, and at least, the highest possible sum.",
    )
    categories: list[Category] = Field(default_factory=list)
    pass_at: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    scale: Text | None = Field(
        default=None, description="What the scale means; by default the highest score is excellent."
    )

    def __init__(self, **values: Any) -> None:
        """Make a rubric in Python; a mistake in it is a UsageError, as in a file."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise describe_first(error, ConfigFile("Rubric", values), example=EXAMPLE) from None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if bool(self.criteria) == bool(self.categories):
            refuse("either criteria on a scale, or categories of items", fix=EXAMPLE)
        if not 0 <= self.lowest < self.highest:
            refuse("lowest must be from 0 to below highest", fix="for example 1 and 5")
        if self.divide_by is not None and self.divide_by < self._best * (1 - _ROUNDING):
            refuse(
                f"the best scores add up to {self._best:g}, and so may not be divided by less",
                fix="leave divide_by out",
                at=("divide_by",),
            )
        if self.categories and self.pass_at is None:
            refuse("pass_at is missing: the lowest score that passes", fix="pass_at: 0.7")
        weighted = [each.weight is not None for each in self.categories]
        if any(weighted) and not all(weighted):
            at = ("categories", weighted.index(False))
            refuse("some categories have a weight", fix="give it to all, or to none", at=at)
        _refuse_doubles("criterion or item", self.names)
        _refuse_doubles("category", [each.name for each in self.categories])
        _refuse_doubles("text", [each.name for each in self.reads])
        return self

    @property
    def items(self) -> Iterator[Item]:
        """The items of all categories."""
        return (item for category in self.categories for item in category.items)

    @property
    def names(self) -> list[str]:
        """What is scored, in order."""
        return [*(each.name for each in self.criteria), *(each.name for each in self.items)]

    @property
    def hash(self) -> str:
        """A hash of the content: the same rubric in another file has the same."""
        # Hashes from before `scale` existed stay valid.
        unsaid = {"scale"} if self.scale is None else None
        content = {"form": _FORM, **self.model_dump(exclude=unsaid)}
        text = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]

    def set_limit(self, limit: int | None) -> Rubric:
        """Return the rubric with another limit wherever it has one."""
        if limit is None:
            return self
        reads = [
            each if each.limit is None else each.model_copy(update={"limit": limit})
            for each in self.reads
        ]
        return self.model_copy(update={"reads": reads})

    def get_range(self, name: str) -> tuple[float, float]:
        """Return the lowest and the highest score."""
        points = {item.name: item.points for item in self.items}
        return (0.0, points[name]) if name in points else (self.lowest, self.highest)

    def may_not_apply(self, name: str) -> bool:
        """Say whether a score may be left out."""
        return any(item.name == name and item.may_not_apply for item in self.items)

    def grade(self, scores: Mapping[str, Score]) -> dict[str, Any]:
        """Return the result of scores, one of each name."""
        if self.categories:
            total, grade = self._sum_items(scores)
        else:
            weighted = sum((scores[each.name] or 0) * each.weight for each in self.criteria)
            total, grade = weighted / (self.divide_by or self._best), {}
        if self.pass_at is None:
            return {**grade, "overall_score": total}
        passed = None if total is None else total >= self.pass_at
        return {**grade, "weighted_score": total, "passed": passed}

    @property
    def _best(self) -> float:
        return self.highest * sum(each.weight for each in self.criteria)

    def _sum_items(self, scores: Mapping[str, Score]) -> tuple[float | None, dict[str, Any]]:
        """Return the weighted share, and the items as `calipers judge audit` reads them."""
        marks = [
            MarkedItem(
                name=item.name,
                achieved=score,
                most=item.points,
                category=category.name,
                category_weight=category.weight,
            )
            for category in self.categories
            for item in category.items
            if (score := scores[item.name]) is not None
        ]
        try:
            total: float | None = sum_weighted(marks)
        except NoSum:  # nothing applies
            total = None
        return total, {
            "criteria_scores": {c.name: _write_category(c, scores) for c in self.categories}
        }


def _write_category(category: Category, scores: Mapping[str, Score]) -> dict[str, Any]:
    left_out = [item.name for item in category.items if scores[item.name] is None]
    written: dict[str, Any] = {
        "items": {
            item.name: {"achieved": scores[item.name], "max": item.points}
            for item in category.items
            if item.name not in left_out
        }
    }
    if left_out:
        written["na_items"] = left_out
    return written if category.weight is None else {**written, "weight": category.weight}


def _refuse_doubles(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            refuse(f"the {what} {shown(name)} is there twice", fix="rename one")


RUBRICS: Registry[Rubric] = Registry("rubric")
add_registry(Rubric, RUBRICS)


@cache
def list_built_in() -> dict[str, Rubric]:
    """Return the built-in rubrics by name, made from the declarations of their metrics."""
    from calipers.metrics.judged import rubrics as declared  # noqa: PLC0415 (loads Polars)

    return {
        of.name: Rubric(
            name=of.name,
            question=of.question,
            reads=[
                Reads(name=name, field=field, limit=None if field == "answer" else LIMIT)
                for name, field in of.reads.items()
            ],
            criteria=[
                Criterion(name=name, says=says, weight=weight)
                for name, (weight, says) in of.criteria.items()
            ],
            lowest=declared.LOWEST,
            highest=declared.HIGHEST,
            divide_by=of.over,
        )
        for of in declared.RUBRICS
    }


def read_rubric(given: str, folder: Path = Path()) -> Rubric:
    """Return a built-in or registered rubric by its name, or the one in a YAML or JSON file."""
    known = {**RUBRICS.read_all(), **list_built_in()}
    if given in known:
        return known[given]
    path = folder / given
    if not path.exists():
        raise UsageError(
            f"{path}: no such file, and no built-in rubric",
            fix=f"name a rubric file, or one of {', '.join(known)}",
        )
    return Rubric.of(read_config(path, example=EXAMPLE), example=EXAMPLE)
