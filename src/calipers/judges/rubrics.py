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
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from calipers.judges.rubric_items import MarkedItem, NoSum, sum_weighted
from calipers.judges.rubric_protocol import is_of_protocol, translate_rubric
from calipers.support.config import ConfigFile, read_config, shown
from calipers.support.errors import UsageError
from calipers.support.plugins import Registry, add_registry
from calipers.support.strict_model import StrictModel, describe_first, refuse

if TYPE_CHECKING:
    from calipers.metrics.families.judged import JudgedRubric

EXAMPLE = "for example categories: [{name: function, items: [{name: runs, points: 2, says: …}]}]"
LIMIT = 2000  # characters of a text that a judge reads, as the agents specification has it
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
    """An item that is worth points."""

    name: Text
    says: Text
    points: Positive
    may_not_apply: bool = False
    all_or_nothing: bool = False


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
    grade_scale: dict[str, float] | None = Field(
        default=None,
        description="Letters and the lowest score of each; judgments then have a `grade`.",
    )
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
        weighted = [category.weight is not None for category in self.categories]
        if any(weighted) and not all(weighted):
            at = ("categories", weighted.index(False))
            refuse("some categories have a weight", fix="give it to all, or to none", at=at)
        _refuse_doubles("criterion or item", self.names)
        _refuse_doubles("category", [category.name for category in self.categories])
        _refuse_doubles("text", [text_read.name for text_read in self.reads])
        return self

    @property
    def items(self) -> Iterator[Item]:
        """The items of all categories."""
        return (item for category in self.categories for item in category.items)

    @property
    def names(self) -> list[str]:
        """What is scored, in order."""
        return [
            *(criterion.name for criterion in self.criteria),
            *(item.name for item in self.items),
        ]

    @property
    def hash(self) -> str:
        """A hash of the content: the same rubric in another file has the same."""
        # Hashes from before these existed stay valid.
        content = {"form": _FORM, **self.model_dump()}
        for name in ("scale", "grade_scale"):
            if content[name] is None:
                del content[name]
        for category in content["categories"]:
            for item in category["items"]:
                if not item["all_or_nothing"]:
                    del item["all_or_nothing"]
        text = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]

    def set_limit(self, limit: int | None) -> Rubric:
        """Return the rubric with another limit wherever it has one."""
        if limit is None:
            return self
        reads = [
            text_read if text_read.limit is None else text_read.model_copy(update={"limit": limit})
            for text_read in self.reads
        ]
        return self.model_copy(update={"reads": reads})

    def get_range(self, name: str) -> tuple[float, float]:
        """Return the lowest and the highest score."""
        points = {item.name: item.points for item in self.items}
        return (0.0, points[name]) if name in points else (self.lowest, self.highest)

    def is_all_or_nothing(self, name: str) -> bool:
        """Return True if an item has all of its points, or none."""
        return any(item.name == name and item.all_or_nothing for item in self.items)

    def may_not_apply(self, name: str) -> bool:
        """Return True if a score may be left out."""
        return any(item.name == name and item.may_not_apply for item in self.items)

    def grade(self, scores: Mapping[str, Score]) -> dict[str, Any]:
        """Return the result of scores, one of each name."""
        if self.categories:
            total, grade = self._sum_items(scores)
        else:
            weighted = sum(
                (scores[criterion.name] or 0) * criterion.weight for criterion in self.criteria
            )
            total, grade = weighted / (self.divide_by or self._best), {}
        if self.pass_at is None:
            return {**grade, "overall_score": total}
        passed = None if total is None else total >= self.pass_at
        return {**grade, "weighted_score": total, "passed": passed, **self._find_letter(total)}

    def _find_letter(self, total: float | None) -> dict[str, Any]:
        """Return the grade of a score: the highest letter whose bound it reaches."""
        if self.grade_scale is None or total is None:
            return {}
        best_first = sorted(self.grade_scale.items(), key=lambda bound: -bound[1])
        reached = (letter for letter, bound in best_first if total >= bound - _ROUNDING)
        return {"grade": next(reached, best_first[-1][0])}

    @property
    def _best(self) -> float:
        return self.highest * sum(criterion.weight for criterion in self.criteria)

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
    from calipers.metrics.families import judged as declared  # noqa: PLC0415 (loads Polars)

    return {of.name: _make_rubric(of, declared.PASS_MARK) for of in declared.RUBRICS}


_LIMITS = {"answer": None, "passages": 10 * LIMIT}


def _make_rubric(of: JudgedRubric, mark: float) -> Rubric:
    reads = [
        Reads(name=name, field=field, limit=_LIMITS.get(field, LIMIT))
        for name, field in of.reads.items()
    ]
    pass_at = mark if of.decides else None
    if of.may_not_apply:
        categories = [
            Category(
                name=name,
                weight=weight,
                items=[Item(name=name, says=says, points=of.ends[1], may_not_apply=True)],
            )
            for name, (weight, says) in of.criteria.items()
        ]
        return Rubric(
            name=of.name, question=of.question, reads=reads, categories=categories, pass_at=pass_at
        )
    lowest, highest = of.ends
    return Rubric(
        name=of.name,
        question=of.question,
        reads=reads,
        criteria=[
            Criterion(name=name, says=says, weight=weight)
            for name, (weight, says) in of.criteria.items()
        ],
        lowest=lowest,
        highest=highest,
        divide_by=of.over,
        scale=of.scale,
        pass_at=pass_at,
    )


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
    config = read_config(path, example=EXAMPLE)
    if is_of_protocol(config.value):
        config = translate_rubric(config)
    return Rubric.of(config, example=EXAMPLE)
