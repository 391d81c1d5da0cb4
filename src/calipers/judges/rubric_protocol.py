"""Rubrics as T's judge protocol writes them: weighted requirements, or categories of checked items.

A requirement is worth its weight in points: all or nothing where its evaluation is binary. An item
of a category may not apply, where it names a condition for that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from calipers.support.config import ConfigFile, shown
from calipers.support.errors import UsageError, nearest

_KEYS = ("name", "description", "requirements", "categories", "grading")
_GRADING = ("pass_threshold", "grade_scale")  # which may stand at the top too
_REQUIREMENT = (
    *("id", "description", "weight", "evaluation", "validation_command", "criteria"),
    *("skill_validation", "skill_source"),
)
_CATEGORY = ("weight", "scoring_type", "items", "description")
_ITEM = ("id", "check", "points", "na_condition")
_EVALUATIONS = ("binary", "scaled")
_PASS_AT = 0.6  # where the rubric does not say
_QUESTION = "Evaluate how far the agent's work meets the requirements of its task."
_FIX = "for example requirements: [{id: R001, description: It runs, weight: 2, evaluation: binary}]"

Line = tuple[Hashable, ...]


def is_of_protocol(found: Any) -> bool:
    """Return True if the content of a file is a rubric of the protocol."""
    if not isinstance(found, Mapping):
        return False
    is_named = any(key in found for key in ("requirements", *_GRADING, "grading"))
    return is_named or isinstance(found.get("categories"), Mapping)


def translate_rubric(config: ConfigFile) -> ConfigFile:
    """Return the content of a file as our rubric has it.

    Raises:
        UsageError: Something in it is not as the protocol has it.
    """
    return _Translation(config).translate()


class _Translation:
    def __init__(self, config: ConfigFile) -> None:
        self._config = config
        self._lines: dict[Line, int] = {}  # of our places

    def translate(self) -> ConfigFile:
        found = self._read_mapping(self._config.value, (), (*_KEYS, *_GRADING))
        grading = self._read_mapping(found.get("grading") or {}, ("grading",), _GRADING)
        has_both = bool(found.get("requirements")) and bool(found.get("categories"))
        if has_both or not (found.get("requirements") or found.get("categories")):
            self._refuse((), "either requirements, or categories of items")
        of_requirements = bool(found.get("requirements"))
        told = {**found, **grading}
        value: dict[str, Any] = {
            "name": found.get("name") or Path(self._config.source).stem,
            "question": self._write_question(found.get("description")),
            "categories": self._read_requirements() if of_requirements else self._read_categories(),
            "pass_at": told.get("pass_threshold", _PASS_AT),
        }
        if told.get("grade_scale") is not None:
            value["grade_scale"] = told["grade_scale"]
            self._note_line(("grade_scale",), ("grading", "grade_scale"))
        self._note_line(("pass_at",), ("grading", "pass_threshold"))
        return replace(self._config, value=value, lines=self._lines)

    def _write_question(self, description: Any) -> Any:
        return f"{_QUESTION} {description}" if isinstance(description, str) else _QUESTION

    def _read_requirements(self) -> list[dict[str, Any]]:
        at: Line = ("requirements",)
        items = [
            self._read_requirement(requirement, (*at, number), number)
            for number, requirement in self._walk_list(self._config.value["requirements"], at)
        ]
        return [{"name": "requirements", "items": items}]

    def _read_requirement(self, requirement: Any, at: Line, number: int) -> dict[str, Any]:
        found = self._read_mapping(requirement, at, _REQUIREMENT)
        self._note_line(("categories", 0, "items", number), at)
        how = found.get("evaluation", "scaled")
        if how not in _EVALUATIONS:
            self._refuse((*at, "evaluation"), f"{shown(str(how))} is neither binary nor scaled")
        told = [str(found.get("description") or ""), *map(str, found.get("criteria") or ())]
        return {
            "name": self._read_name(found, at),
            "says": "; ".join(filter(None, told)) or str(found.get("id")),
            "points": found.get("weight", 1.0),
            **({"all_or_nothing": True} if how == "binary" else {}),
        }

    def _read_categories(self) -> list[dict[str, Any]]:
        categories = self._config.value["categories"]
        if not isinstance(categories, Mapping):
            self._refuse(("categories",), "categories is no mapping of names to categories")
        made = []
        for place, (name, category) in enumerate(categories.items()):
            at: Line = ("categories", name)
            found = self._read_mapping(category, at, _CATEGORY)
            self._note_line(("categories", place), at)
            listed = self._walk_list(found.get("items"), (*at, "items"))
            items = [
                self._read_item(item, (*at, "items", number), (place, number))
                for number, item in listed
            ]
            weight = {} if found.get("weight") is None else {"weight": found["weight"]}
            made.append({"name": str(name), **weight, "items": items})
        return made

    def _read_item(self, item: Any, at: Line, place: tuple[int, int]) -> dict[str, Any]:
        found = self._read_mapping(item, at, _ITEM)
        self._note_line(("categories", place[0], "items", place[1]), at)
        condition = found.get("na_condition")
        more = f" (does not apply: {condition})" if condition else ""
        return {
            "name": self._read_name(found, at),
            "says": f"{found.get('check') or found.get('id')}{more}",
            "points": found.get("points", 1.0),
            **({"may_not_apply": True} if condition else {}),
        }

    def _read_name(self, found: Mapping[str, Any], at: Line) -> str:
        if found.get("id") in (None, ""):
            self._refuse(at, "id is missing")
        return str(found["id"])

    def _read_mapping(self, value: Any, at: Line, known: tuple[str, ...]) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            self._refuse(at, f"{self._show(at)} is no mapping of keys to values")
        for key in value:
            if key not in known:
                where = self._config.locate((*at, key))
                raise UsageError(
                    f"{where}: {shown(str(key))} is not a known key", fix=nearest(str(key), known)
                )
        return value  # type: ignore[no-any-return]

    def _walk_list(self, value: Any, at: Line) -> Iterator[tuple[int, Any]]:
        if not isinstance(value, list) or not value:
            self._refuse(at, f"{self._show(at)} is no list of entries")
        yield from enumerate(value)

    def _show(self, at: Line) -> str:
        return ".".join(map(str, at)) or "the rubric"

    def _note_line(self, ours: Line, theirs: Line) -> None:
        """Remember the line of a place, so that an error in our form names theirs."""
        line = self._config.lines.get(theirs)
        if line is not None:
            self._lines[ours] = line

    def _refuse(self, at: Line, problem: str) -> None:
        raise UsageError(f"{self._config.locate(at)}: {problem}", fix=_FIX)
