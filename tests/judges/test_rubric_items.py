"""Rubric items: every shape they come in, what they add up to, and what gives no sum."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.judges.rubric_items import (
    NO_RUBRIC,
    NoSum,
    RubricWeights,
    find_tolerance,
    list_items,
    parse_weights,
    read_rubric_weights,
    sum_weighted,
)
from calipers.records.fields import Number
from calipers.support.errors import UsageError

CATEGORIES: dict[str, Any] = {
    "functional": {
        "achieved": 3.5,  # the judge's own sums are not believed
        "max": 3.5,
        "items": {"F1": {"achieved": 1.0, "max": 1.0}, "F2": {"achieved": 0.5, "max": 1.0}},
    },
    "style": {
        "na_items": ["S2"],
        "items": {
            "S1": {"achieved": 0.2, "max": 2.0},
            "S2": {"achieved": 1.0, "max": 1.0},
            "S3": {"achieved": "N/A", "max": "N/A"},
        },
    },
}


def total(judgment: dict[str, Any], rubric: Any = None) -> float:
    items = list_items(judgment, NO_RUBRIC if rubric is None else parse_weights(rubric))
    assert items is not None
    return sum_weighted(items)


def why_not(judgment: dict[str, Any], rubric: Any = None) -> str:
    with pytest.raises(NoSum) as refused:
        total(judgment, rubric)
    return str(refused.value)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ({"a": {"achieved": 1, "max": 1}, "b": {"achieved": 1, "max": 3}}, 2 / 4),
        ([{"id": "a", "achieved": 1, "max": 1}, {"name": "b", "points": 1, "max": 3}], 2 / 4),
        ([{"id": "a", "score": 1, "weight": 1}, {"id": "b", "score": 0.6, "weight": 3}], 0.7),
        ([{"id": "a", "score": 4, "max": 5}, {"id": "b", "score": 1, "max": 5}], 0.5),
        ([{"achieved": 1, "max": 1}, {"achieved": 0, "max": 1}], 1 / 2),
        (
            [
                {"id": "a", "achieved": 1, "max": 1, "weight": 3},
                {"id": "b", "achieved": 1, "max": 4, "weight": 1},
            ],
            (3 + 0.25) / 4,
        ),
        ({"a": {"achieved": 1, "max": 2}, "b": {"achieved": 9, "max": 9, "na": True}}, 1 / 2),
        ({"a": {"achieved": 1, "max": 2}, "b": {"achieved": "n/a", "max": 9}}, 1 / 2),
        ({"a": {"achieved": 1, "max": 2}, "b": {"achieved": None, "max": 9}}, 1 / 2),
        ({"a": {"achieved": 1, "max": 2}, "b": {"achieved": 0, "max": 0}}, 1 / 2),
        ({"a": {"achieved": Number("0.10"), "max": Number("1")}}, 0.1),
    ],
)
def test_items_without_categories(items: Any, expected: float) -> None:
    assert total({"items": items}) == pytest.approx(expected, rel=1e-12)


def test_categories_without_weights_are_one_pool() -> None:
    assert total({"criteria_scores": CATEGORIES}) == pytest.approx((1 + 0.5 + 0.2) / 4)


def test_categories_with_weights() -> None:
    expected = (0.75 * 0.6 + 0.1 * 0.2) / 0.8
    weighted = {
        name: {**entry, "weight": weight}
        for (name, entry), weight in zip(CATEGORIES.items(), (0.6, 0.2), strict=True)
    }
    assert total({"criteria_scores": weighted}) == pytest.approx(expected)
    assert total({"criteria_scores": CATEGORIES}, {"functional": 0.6, "style": 0.2}) == (
        pytest.approx(expected)
    )
    listed = [
        {"id": name, "category": category, **item}
        for category, entry in CATEGORIES.items()
        for name, item in entry["items"].items()
        if name != "S2"
    ]
    assert total({"items": listed}, {"functional": 0.6, "style": 0.2}) == pytest.approx(expected)


def test_a_category_in_which_nothing_applies_has_no_weight() -> None:
    empty = {"weight": 5, "items": {"B1": {"achieved": "N/A", "max": "N/A"}}}
    full = {"weight": 1, "items": {"F1": {"achieved": 1, "max": 2}}}
    assert total({"criteria_scores": {"build": empty, "functional": full}}) == 0.5


def test_a_category_without_items_is_an_item() -> None:
    found = {"clear": {"achieved": 1, "max": 2}, "right": {"achieved": 4, "max": 4}}
    assert total({"criteria_scores": found}) == 5 / 6
    assert total({"criteria_scores": found}, {"clear": 1, "right": 3}) == (0.5 + 3) / 4


def test_scores_are_items_for_a_rubric_that_knows_them() -> None:
    judgment = {"scores": {"clear": 4, "right": 5, "short": None}}
    assert list_items(judgment) is None
    assert list_items(judgment, parse_weights({"other": 1})) is None
    rubric = {"clear": {"weight": 0.25, "max": 5}, "right": {"weight": 0.75, "max": 5}}
    assert total(judgment, rubric) == pytest.approx(0.25 * 0.8 + 0.75)
    assert total({"scores": {"clear": 0.5, "right": 1}}, {"clear": 0.25, "right": 0.75}) == 0.875
    assert (
        total(
            {"scores": {"F1": 1, "F2": 0}}, [{"id": "F1", "points": 1}, {"id": "F2", "points": 3}]
        )
        == 0.25
    )


def test_the_rubric_goes_before_what_the_judge_wrote() -> None:
    items = {
        "a": {"achieved": 1, "max": 1, "weight": 1},
        "b": {"achieved": 0, "max": 1, "weight": 1},
    }
    assert total({"items": items}) == 0.5
    assert total({"items": items}, {"a": 3, "b": 1}) == 0.75


@pytest.mark.parametrize(
    ("rubric", "expected"),
    [
        ({"a": 0.6, "b": 0.4}, RubricWeights({"a": 0.6, "b": 0.4})),
        ({"a": {"weight": 0.6, "max": 5}}, RubricWeights({"a": 0.6}, {"a": 5.0})),
        (
            [{"id": "a", "weight": 2}, {"criterion": "b", "points": 3}],
            RubricWeights({"a": 2.0}, {"b": 3.0}),
        ),
        ({"name": "x", "criteria": {"a": 1}}, RubricWeights({"a": 1.0})),
        (
            {
                "categories": {"c": {"weight": 0.35, "items": [{"id": "F1", "points": 1.5}]}},
                "grading": {},
            },
            RubricWeights({"c": 0.35}, {"F1": 1.5}),
        ),
    ],
)
def test_shapes_of_rubrics(rubric: Any, expected: RubricWeights) -> None:
    assert parse_weights(rubric) == expected


@pytest.mark.parametrize(
    ("judgment", "reason"),
    [
        ({"items": {"F1": {"achieved": 1}}}, "item F1 has no max"),
        ({"items": {"F1": {"achieved": 1, "max": 0}}}, "item F1 has 1 of 0"),
        ({"items": {"F1": {"achieved": 2, "max": 1}}}, "item F1 has 2 of 1"),
        ({"items": {"F1": {"achieved": -1, "max": 1}}}, "item F1: -1 is negative"),
        ({"items": {"F1": {"achieved": True, "max": 1}}}, "item F1: true is not a number"),
        ({"items": {"F1": {"achieved": "most", "max": 1}}}, 'item F1: "most" is not a number'),
        (
            {"items": {"F1": {"achieved": 1, "max": float("inf")}}},
            "item F1: max: Infinity is not a finite number",
        ),
        ({"items": {"F1": {"achieved": 1, "max": float("nan")}}}, "item F1: max: is not a number"),
        (
            {"items": {"F1": {"achieved": 1, "max": 1, "weight": -2}}},
            "item F1: weight: -2 is negative",
        ),
        ({"items": {"F1": 1}}, "item F1 is 1, not an object"),
        ({"items": [3]}, "item 1 is 3, not an object"),
        ({"items": "F1"}, "items is F1, neither a list nor an object"),
        ({"items": {"F1": {"achieved": "N/A", "max": 1}}}, "no item applies"),
        ({"criteria_scores": {"c": 0.5}}, "criteria_scores: c is 0.5, not an object"),
        ({"criteria_scores": ["c"]}, "criteria_scores: 1 is c, not an object"),
        (
            {
                "items": {
                    "a": {"achieved": 1, "max": 1, "weight": 1},
                    "b": {"achieved": 1, "max": 1},
                }
            },
            "item b has no weight, other items have one",
        ),
        (
            {"criteria_scores": {**CATEGORIES, "style": {**CATEGORIES["style"], "weight": 1}}},
            "category functional has no weight, other categories have one",
        ),
        ({"items": {"a": {"achieved": 1, "max": 1, "weight": 0}}}, "the weights add up to 0"),
        ({"items": {"\x1b[2J": {"achieved": 1}}}, "item \ufffd[2J has no max"),
    ],
)
def test_what_gives_no_sum_says_why(judgment: dict[str, Any], reason: str) -> None:
    assert why_not(judgment) == reason


def test_a_score_above_its_scale_gives_no_sum() -> None:
    assert why_not({"scores": {"clear": 4}}, {"clear": 1}) == "item clear has 4 of 1"
    lacking = {"clear": {"weight": 1, "max": 5}}
    assert why_not({"scores": {"clear": 4, "right": 3}}, lacking) == "item right has no max"


@pytest.mark.parametrize(
    "judgment", [{}, {"items": None}, {"items": []}, {"criteria_scores": {}}, {"scores": {"a": 1}}]
)
def test_no_items_are_none(judgment: dict[str, Any]) -> None:
    assert list_items(judgment) is None


_points = st.fractions(0, 1, max_denominator=50)
_tops = st.fractions(Fraction(1, 50), 50, max_denominator=50)


@given(st.lists(st.tuples(_points, _tops, _points), min_size=1))
def test_sums_equal_exact_arithmetic(drawn: list[tuple[Fraction, Fraction, Fraction]]) -> None:
    items = [{"achieved": float(share * top), "max": float(top)} for share, top, _ in drawn]
    pooled = sum(share * top for share, top, _ in drawn) / sum(top for _, top, _ in drawn)
    assert total({"items": items}) == pytest.approx(float(pooled), abs=1e-12)
    weights = sum(weight for *_, weight in drawn)
    weighted = [{**item, "weight": float(w)} for item, (*_, w) in zip(items, drawn, strict=True)]
    if weights:
        exact = sum(share * weight for share, _, weight in drawn) / weights
        assert total({"items": weighted}) == pytest.approx(float(exact), abs=1e-12)
    else:
        assert why_not({"items": weighted}) == "the weights add up to 0"


@pytest.mark.parametrize(
    ("written", "tolerance"),
    [
        ("0.93", 0.005),
        ("0.9", 0.005),
        ("1", 0.005),
        ("1.0", 0.005),
        ("0.929", 0.0005),
        ("9.3e-1", 0.005),
        ("0.9286", 5e-5),
        ("0.92857142857", 1e-6),
        ("0e400", 0.005),
        ("1e-400", 1e-6),
    ],
)
def test_a_score_may_be_rounded_as_it_is_written(written: str, tolerance: float) -> None:
    assert find_tolerance(Number(written)) == pytest.approx(tolerance)


def test_weights_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rubric.yaml"
    path.write_text("categories:\n  style: {weight: 0.2, items: [{id: S1, points: 2}]}\n")
    assert (
        read_rubric_weights(path)
        == RubricWeights({"style": 0.2}, {"S1": 2.0})
        == read_rubric_weights(str(path))
    )
    path = tmp_path / "weights.json"
    path.write_text('{"clear": 0.6, "right": 0.4}')
    assert read_rubric_weights(path) == RubricWeights({"clear": 0.6, "right": 0.4})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clear: -1", "clear: -1 is negative"),
        ("clear: high", 'clear: "high" is not a number'),
        ("clear: .inf", "clear: Infinity is not a finite number"),
        (f"clear: 1{'0' * 400}", "not a finite number"),
        ("", "neither a list nor an object"),
        ("{}", "no weights in it"),
        ("clear: 1\nclear: 2", "clear is there twice"),
        ("!!python/object/apply:os.system [ls]", "cannot be read as YAML"),
        ("a: [" * 5000, "cannot be read as YAML"),
    ],
)
def test_bad_weights_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "weights.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_rubric_weights(path)
    assert problem in refused.value.message
    assert "weights.yaml" in refused.value.message
    assert "{accuracy: 0.6, clarity: 0.4}" in refused.value.fix


def test_a_file_nobody_wrote_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_rubric_weights(tmp_path / "weights.yaml")
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (5 << 20))
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read_rubric_weights(path)
    with pytest.raises(UsageError, match="weights: a: -1 is negative"):
        read_rubric_weights({"a": -1})
