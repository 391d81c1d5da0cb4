"""The record: what each field takes, what it refuses, and in which words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from calipers.records.fields import FIELDS, BadValue, Kind, Number, find_field

# What users have written since 0.1; a new field needs no line here.
CONTRACT = (
    "id model tier variant run category capability tags input target answer cot reference prob_correct "
    "prompt_tokens completion_tokens cache_read_tokens cache_write_tokens cost_usd latency_ms "
    "duration_seconds correct passed impl_rate expected_behaviors observed_behaviors violations "
    "predicted actual judgments trace error"
)


def test_no_field_of_the_contract_is_gone() -> None:
    assert set(CONTRACT.split()) <= set(FIELDS)


@pytest.mark.parametrize("name", sorted(FIELDS))
@pytest.mark.parametrize("null", [None, math.nan, np.float32("nan")])
def test_null_and_nan_are_null_in_every_field(name: str, null: object) -> None:
    assert FIELDS[name].read(null) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("18.50", "18.50"),
        ("", ""),
        (Number("1e3"), "1e3"),
        (Number("18.50"), "18.50"),
        (Number("123456789012345678901234567890"), "123456789012345678901234567890"),
        (18, "18"),
        (18.5, "18.5"),
        (True, "true"),
        (False, "false"),
        (np.int64(7), "7"),
        (np.bool_(1), "true"),
    ],
)
def test_text_is_the_json_text_of_a_scalar(value: object, text: str) -> None:
    read = FIELDS["answer"].read(value)
    assert read == text
    assert type(read) is str


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("answer", ["a", 1], '["a", 1] is a list, not a text'),
        ("answer", {"a": Number("1.50")}, '{"a": 1.50} is an object, not a text'),
        ("answer", math.inf, "Infinity is not a finite number"),
        ("answer", Number("-Infinity"), "-Infinity is not a finite number"),
        ("id", {}, "{} is an object, not a text"),
        ("prob_correct", 1.5, "1.5 is outside [0, 1]"),
        ("prob_correct", Number("1.50"), "1.50 is outside [0, 1]"),
        ("prob_correct", -1e-9, "-1e-09 is outside [0, 1]"),
        ("impl_rate", 2, "2 is outside [0, 1]"),
        ("latency_ms", -1, "-1 is negative"),
        ("cost_usd", Number("-0.01"), "-0.01 is negative"),
        ("latency_ms", math.inf, "Infinity is not a finite number"),
        ("latency_ms", Number("1e400"), "1e400 is not a finite number"),
        ("latency_ms", "12", '"12" is not a number'),
        ("latency_ms", True, "true is not a number"),
        ("latency_ms", [1], "[1] is not a number"),
        ("correct", 1, "1 is not true or false"),
        ("correct", "true", '"true" is not true or false'),
        ("passed", Number("0"), "0 is not true or false"),
    ],
)
def test_what_a_field_refuses_is_said(field: str, value: object, problem: str) -> None:
    with pytest.raises(BadValue) as refused:
        FIELDS[field].read(value)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("field", "value", "number"),
    [
        ("prob_correct", 0, 0.0),
        ("prob_correct", Number("1.0"), 1.0),
        ("latency_ms", Number("9007199254740993"), 9007199254740992.0),
        ("latency_ms", np.float32(1.5), 1.5),
        ("prompt_tokens", 10, 10.0),
    ],
)
def test_a_number_field_holds_doubles(field: str, value: object, number: float) -> None:
    read = FIELDS[field].read(value)
    assert read == number
    assert type(read) is float


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(BadValue) as refused:
        FIELDS["latency_ms"].read("x" * 1000)
    assert len(str(refused.value)) < 100
    assert str(refused.value).endswith("… is not a number")


@pytest.mark.parametrize("field", ["trace", "error"])
def test_nested_values_are_kept_as_json_text_with_their_spelling(field: str) -> None:
    value = {"b": [Number("1.50"), None, True], "a": "é", "n": math.nan}
    expected = '{"b": [1.50, null, true], "a": "\\u00e9", "n": null}'
    assert FIELDS[field].read(value) == expected


def test_a_text_in_a_field_of_anything_is_kept_as_it_is() -> None:
    assert FIELDS["error"].read("timeout: 60 s") == "timeout: 60 s"
    assert FIELDS["error"].read(Number("1.0")) == "1.0"


def test_a_reference_is_a_text_or_a_list_of_texts() -> None:
    reference = FIELDS["reference"]
    assert reference.read("[1] Smith") == "[1] Smith"
    assert reference.read(Number("1.50")) == "1.50"
    assert reference.read(["é", '"b"']) == '["\\u00e9", "\\"b\\""]'
    assert reference.read(math.nan) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "an empty list, not a text or a list of texts"),
        (["a", None], "null in the list is not text"),
        (["a", Number("3")], "3 in the list is not text"),
        ([["a"]], '["a"] in the list is not text'),
        ({"text": "a"}, '{"text": "a"} is an object, not a text or a list of texts'),
    ],
)
def test_other_references_are_refused(value: Any, problem: str) -> None:
    with pytest.raises(BadValue) as refused:
        FIELDS["reference"].read(value)
    assert str(refused.value) == problem


@pytest.mark.parametrize("field", ["trace", "answer"])
def test_nesting_without_end_is_refused_and_no_crash(field: str) -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(BadValue, match="nested too deep"):
        FIELDS[field].read(value)


def test_a_field_that_the_contract_does_not_know_takes_any_scalar() -> None:
    field = find_field("temperature")
    assert (field.name, field.kind) == ("temperature", Kind.SCALAR)
    assert find_field("answer") is FIELDS["answer"]


def test_refused_numbers_are_marked_in_a_column() -> None:
    numbers = pl.DataFrame({"prob_correct": [0.0, 1.0, -0.1, 1.1, math.inf, None]})
    marked = numbers.select(FIELDS["prob_correct"].mark_outside(pl.col("prob_correct"))).to_series()
    assert marked.to_list() == [False, False, True, True, True, None]
