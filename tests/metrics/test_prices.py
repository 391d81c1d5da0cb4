"""Prices from a file, and what calls cost by them; costs are additive and never a guess."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import polars as pl
import pytest

import calipers as cal
from calipers.metrics.token_prices import (
    USED,
    Price,
    Prices,
    check_prices,
    find_listed_tariff,
    price_call,
    price_calls,
    read_prices,
)
from calipers.support.errors import UsageError

pytest.importorskip("genai_prices.data")
from tests.metrics.prices_at_hand import GOOD, PRICES, call, costs

YAML = """
claude: {input: 3, output: 15, cache_read: .3, cache_write: 3.75}
local:
  input: 0
  output: 0.5
  cache_read:
"""


def written(folder: Path, text: str, name: str = "prices.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "name"),
    [(YAML, "p.yaml"), (YAML, "p.yml"), (json.dumps(GOOD), "p.json"), (json.dumps(GOOD), "p.yaml")],
)
def test_yaml_and_json_say_the_same(text: str, name: str, tmp_path: Path) -> None:
    path = written(tmp_path, text, name)
    expected = {"claude": Price(3.0, 15.0, 0.3, 3.75), "local": Price(0.0, 0.5)}
    assert read_prices(path) == Prices(str(path), expected)


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("", "no prices of models in it", "my-model: {input: 3, output: 15}"),
        ("[]", "no prices of models in it", "my-model"),
        ("{}", "no prices of models in it", "my-model"),
        ("gpt-4o", "no prices of models in it", "my-model"),
        ("gpt-4o: 5", "gpt-4o is 5, no prices", "my-model"),
        ("4: {input: 1, output: 2}", "4 is not text, as the name of a model is", "in quotes"),
        ("no: {input: 1, output: 2}", "False is not text", "in quotes"),
        ("m: {input: 1}", "m: output is missing", "output: 15"),
        ("m: {output: 1, input: }", "m: input is missing", "input: 3"),
        ("m: {}", "m: input is missing", "input: 3"),
        ("m: {input: 1, outputs: 2}", "m: no price is called outputs", "did you mean output?"),
        ("m: {input: 1, output: 2, 3: 4}", "m: no price is called 3", "cache_read"),
        ("m: {input: three, output: 2}", 'm: input is "three", not a number', "plain number"),
        ("m: {input: '3', output: 2}", 'm: input is "3", not a number', "plain number"),
        ("m: {input: 1, output: 1e-}", 'm: output is "1e-", not a number', "plain number"),
        ("m: {input: true, output: 2}", "m: input is true, not a number", "plain number"),
        ("m: {input: [1], output: 2}", "m: input is a list, not a number", "plain number"),
        ("m: {input: 1, output: -2}", "m: output is -2, negative", "plain number"),
        ("m: {input: .nan, output: 2}", "m: input is nan, not a finite number", "plain number"),
        ("m: {input: .inf, output: 2}", "m: input is inf, not a finite number", "plain number"),
        (f"m: {{input: 1{'0' * 400}, output: 2}}", "m: input is inf, not a finite", "plain number"),
        (
            "m: {input: 1, output: 2}\nm: {input: 3, output: 4}",
            "cannot be read as YAML: m is there twice",
            "my-model",
        ),
        (
            "m: {input: 1, input: 3, output: 4}",
            "cannot be read as YAML: input is there twice",
            "my-model",
        ),
        ("m: {input: 1", "cannot be read as YAML: ", "my-model"),
        ("m: !!python/object/apply:os.getcwd []", "cannot be read as YAML: could not", "my-model"),
        ("[" * 5000, "cannot be read as YAML: ", "my-model"),
    ],
)
def test_a_bad_file_is_named_with_what_to_do(
    text: str, message: str, fix: str, tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as raised:
        read_prices(path)
    assert raised.value.message.startswith(f"{path}: {message}")
    assert fix in raised.value.fix
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("text", ['{"m": 1, "m": 2}', "{", "[" * 100_000, '{"m": {"input": NaN}}'])
def test_bad_json_is_named_too(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text, "prices.json")
    with pytest.raises(UsageError) as raised:
        read_prices(path)
    assert raised.value.message.startswith(f"{path}: ")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.yaml", tmp_path):
        with pytest.raises(UsageError, match="check the path") as raised:
            read_prices(path)
        assert str(path) in raised.value.message
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("prix-élevé: {input: 1, output: 2}".encode("latin-1"))
    with pytest.raises(UsageError, match="cannot be read as YAML"):
        read_prices(latin)


def test_names_from_outside_cannot_drive_a_terminal() -> None:
    with pytest.raises(UsageError) as raised:
        check_prices({"\x1b[31m" + "m" * 99: 1}, source="p.yaml")
    assert raised.value.message.isprintable()
    assert len(raised.value.message) < 100


def test_prices_travel_to_workers() -> None:
    prices = check_prices(GOOD, source="p.yaml")
    assert pickle.loads(pickle.dumps(prices)) == prices
    assert hash(prices) == hash(pickle.loads(pickle.dumps(prices)))


def test_each_sort_of_token_has_its_price() -> None:
    found = costs(
        call("claude", 1e6, 2e6),
        call("claude", 0, 0, cache_read_tokens=1e6),
        call("claude", 0, 0, cache_write_tokens=1e6),
        call("claude", 1e6, 1e6, cache_read_tokens=1e6, cache_write_tokens=1e6),
        call("claude", 0, 0),
        call("local", 1e6, 1e6, cache_read_tokens=1e6, cache_write_tokens=1e6),
        prices=PRICES,
    )
    assert found["cost_usd"].to_list() == [33.0, 0.3, 3.75, 22.05, 0.0, 0.5]
    assert found["by_file"].all()
    assert not found["by_list"].any()
    assert found["unpriced"].null_count() == found.height


@pytest.mark.parametrize(
    ("in_file", "in_record", "is_priced"),
    [
        ("my-model", "My-Model", True),
        ("My-Model", "my-model", True),
        ("my-model", "acme/my-model", True),
        ("my-model", "openrouter/acme/my-model", True),
        ("my-model", "acme:my-model", True),
        ("acme/my-model", "my-model", True),
        ("acme/my-model", "other/my-model", False),
        ("my-model", "my-model-2024-08-06", True),
        ("my-model", "my-model-20240806", True),
        ("my-model", "my-model@20240806", True),
        ("my-model", "acme/My-Model-2024-08-06", True),
        ("my-model-2024-08-06", "my-model", False),
        ("my-model", "my-model-mini", False),
        ("claude-x", "us.anthropic.claude-x-20240620-v1:0", True),
        ("gpt-4o", "openai/gpt-4o-2024-08-06", True),  # also on the list: the file wins
    ],
)
def test_a_file_matches_names_as_loosely_as_the_list(
    in_file: str,
    in_record: str,
    is_priced: bool,  # noqa: FBT001 (a parameter of the test)
) -> None:
    prices = check_prices({in_file: {"input": 1000, "output": 0}}, source="prices.yaml")
    found = costs(call(in_record), prices=prices).row(0, named=True)
    assert (found["by_file"], found["cost_usd"]) == ((True, 1.0) if is_priced else (False, None))


def test_the_nearest_name_in_the_file_wins_and_a_tie_is_no_price() -> None:
    table = {
        "m": {"input": 1, "output": 0},
        "m-2024-08-06": {"input": 2, "output": 0},
        "a/n": {"input": 3, "output": 0},
        "b/n": {"input": 4, "output": 0},
    }
    prices = check_prices(table, source="prices.yaml")
    models = ("m-2024-08-06", "x/M-2024-08-06", "m-2024-11-20", "b/n", "n")
    found = costs(*(call(model, prompt=1e6) for model in models), prices=prices)
    assert found["cost_usd"].to_list() == [2.0, 2.0, 1.0, 4.0, None]


def test_a_recorded_cost_stands_and_what_is_not_known_is_null() -> None:
    found = costs(
        call("claude", cost_usd=9.0),
        call("claude", cost_usd=0.0),
        {"cost_usd": 2.0},
        {**call("claude"), "prompt_tokens": None},
        {**call("claude"), "completion_tokens": None},
        {**call("claude"), "model": None},
        call("claudette"),
        call("claude "),
        call("claude", cache_read_tokens=10),
        prices=PRICES,
    )
    assert found["cost_usd"].to_list() == [9.0, 0.0, 2.0, *[None] * 5, 0.004503]
    assert found["by_file"].to_list() == [False] * 8 + [True]
    assert found["unpriced"].to_list() == [None] * 6 + ["claudette", "claude ", None]


def test_nothing_to_price_is_nothing() -> None:
    nothing = costs(prices=PRICES)
    assert nothing.height == 0
    assert nothing.columns == costs(call("claude"), prices=PRICES).columns
    assert nothing.schema == costs(call("claude"), prices=PRICES).schema
    assert costs({"cost_usd": 1.0}).schema == nothing.schema


@pytest.mark.parametrize(
    ("in_file", "in_record", "is_priced"),
    [
        ("Claude Opus 4.5", "claude-opus-4-5-20251101", True),
        ("Claude Opus 4.5", "anthropic/claude-opus-4.5", True),
        ("claude-opus-4-5", "Claude Opus 4.5", True),
        ("GPT-4o", "gpt_4o-2024-08-06", True),
        ("Claude Opus 4.5", "claude-opus-4-1", False),
        ("GPT-4o", "gpt-4o-mini", False),
        ("llama3", "llama 3", False),
        ("m", "m ", False),
    ],
)
def test_dots_spaces_and_dashes_are_alike(in_file: str, in_record: str, *, is_priced: bool) -> None:
    prices = check_prices({in_file: {"input": 15, "output": 75}}, source="prices.yaml")
    assert (prices.find(in_record) is not None) == is_priced


def test_a_name_as_it_is_written_goes_before_one_that_is_alike() -> None:
    table = {"m-1.5": {"input": 1, "output": 0}, "m 1 5": {"input": 2, "output": 0}}
    prices = check_prices(table, source="prices.yaml")
    found = [prices.find(name) for name in ("m-1.5", "M 1 5", "m_1_5")]
    assert [each and each.input for each in found] == [1, 2, None]


def test_prices_may_be_a_mapping() -> None:
    table = {"m": {"input": 15, "output": 75}}
    row = {"id": "1", "model": "m", "prompt_tokens": 1e6, "completion_tokens": 1e6}
    score = cal.score([row], metrics=["cost_usd"], prices=table)
    assert score.groups[0].metrics["cost_usd"].value == 90
    assert score.settings["prices"]["m"]["input"] == 15
    with pytest.raises(TypeError, match="expected a path or a mapping, not int"):
        cal.score([row], metrics=["cost_usd"], prices=5)  # type: ignore[arg-type]


def test_one_call_and_a_table_of_calls_cost_the_same() -> None:
    tariff = find_listed_tariff("gemini-2.5-pro")
    assert tariff is not None
    assert len(tariff) > 1  # dearer above 200,000 tokens
    calls = [
        {"prompt_tokens": p, "completion_tokens": 7.0, "cache_read_tokens": read}
        for p in (1.0, 199_999.0, 200_001.0)
        for read in (None, 0.0, 3.0)
    ]
    rows = pl.DataFrame(
        [dict.fromkeys(USED) | {"model": "gemini-2.5-pro"} | each for each in calls],
        schema={"cost_usd": pl.Float64, "model": pl.String, **dict.fromkeys(USED[2:], pl.Float64)},
    )
    table = price_calls(rows, None)["cost_usd"].to_list()
    assert table == pytest.approx([price_call(each, tariff) for each in calls], rel=1e-14)
