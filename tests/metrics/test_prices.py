"""Prices from a file and from the list; costs are additive and never a guess."""

from __future__ import annotations

import json
import pickle
import re
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.metrics.cost.prices import (
    USED,
    Price,
    PriceList,
    Prices,
    check_prices,
    open_price_list,
    price_calls,
    read_prices,
)
from calipers.metrics.cost.prices.listed import read_tariff
from calipers.records.fields import BadValue
from calipers.records.usage import read_usage
from calipers.support.errors import DataError, UsageError

genai_prices = pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
pytest.importorskip("genai_prices.data")

GOOD = {
    "claude": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
    "local": {"input": 0, "output": 0.5, "cache_read": None},
}
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


def costs(*calls: dict[str, Any], prices: Prices | None = None) -> pl.DataFrame:
    schema = {name: pl.String() if name == "model" else pl.Float64() for name in USED}
    return price_calls(pl.DataFrame([dict.fromkeys(USED) | call for call in calls], schema), prices)


def call(
    model: str, prompt: float = 1000, completion: float = 100, **more: float
) -> dict[str, Any]:
    return {"model": model, "prompt_tokens": prompt, "completion_tokens": completion, **more}


# --- The file ---


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


# --- Costs ---

PRICES = check_prices(GOOD, source="prices.yaml")


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


# --- The list ---


@pytest.fixture
def listed() -> PriceList:
    found = open_price_list()
    assert found is not None
    return found


def theirs(listed: PriceList, model: str, provider: str | None = None, **usage: float) -> float:
    """What the package itself makes of it."""
    found = genai_prices.calc_price(
        genai_prices.Usage(**usage),
        model,
        provider_id=provider,
        genai_request_timestamp=datetime.combine(listed.day, time(12, tzinfo=UTC)),
    )
    return float(found.total_price)


def test_the_list_says_which_it_is(listed: PriceList) -> None:
    assert listed.version == genai_prices.__version__
    assert date(2026, 1, 1) < listed.day <= datetime.now(tz=UTC).date()
    assert str(listed) == f"genai-prices {listed.version} (prices of {listed.day})"


@pytest.mark.parametrize(
    ("name", "model", "provider"),
    [
        ("gpt-4o", "gpt-4o", "openai"),
        ("GPT-4o", "gpt-4o", "openai"),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-08-06", "openai"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13", "openai"),
        ("openai/gpt-4o", "gpt-4o", "openai"),
        ("openai:gpt-4o-mini", "gpt-4o-mini", "openai"),
        ("openai-responses:gpt-4o-mini", "gpt-4o-mini", "openai"),
        ("azure/gpt-4o", "gpt-4o", "azure"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4-20250514", "anthropic"),
        ("anthropic:claude-sonnet-4-20250514", "claude-sonnet-4-20250514", "anthropic"),
        ("anthropic/claude-sonnet-4", "claude-sonnet-4", "anthropic"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4-20250514", "anthropic"),
        (name := "us.anthropic.claude-sonnet-4-20250514-v1:0", name, "aws"),
        (f"bedrock:{name}", name, "aws"),
        (f"arn:aws:bedrock:us-east-1:1:inference-profile/{name}", name, "aws"),
        (base := "anthropic.claude-3-5-sonnet-20241022-v2:0", base, "aws"),
        ("amazon.nova-pro-v1:0", "amazon.nova-pro-v1:0", "aws"),
        ("openrouter/anthropic/claude-sonnet-4", "anthropic/claude-sonnet-4", "openrouter"),
        ("gemini-2.5-pro", "gemini-2.5-pro", "google"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro", "google"),
        ("google-gla:gemini-2.5-flash", "gemini-2.5-flash", "google"),
        ("vertex_ai/gemini-2.5-flash", "gemini-2.5-flash", "google"),
        ("publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro", "google"),
        ("mistral-large-latest", "mistral-large-latest", "mistral"),
        ("deepseek-chat", "deepseek-chat", "deepseek"),
    ],
)
def test_models_are_found_as_providers_write_them(
    name: str, model: str, provider: str, listed: PriceList
) -> None:
    expected = theirs(listed, model, provider, input_tokens=12_345, output_tokens=678)
    assert expected > 0
    found = costs(call(name, 12_345, 678))
    assert found["cost_usd"].item() == pytest.approx(expected, rel=1e-12)
    assert found["by_list"].item()


def test_a_dated_snapshot_has_its_own_price() -> None:
    now, then = costs(call("gpt-4o", 1e6, 0), call("gpt-4o-2024-05-13", 1e6, 0))["cost_usd"]
    assert then == 2 * now


@pytest.mark.parametrize(
    "name",
    [
        *("my-model", "", " ", ":", "/", "models/", "arn:x/", "gpt", "gpt-4o-mine", "claude"),
        *("ft:gpt-4o-2024-08-06:acme::x1", "Claude Opus 4.5", "me/gpt-4o", "my-models/gpt-4o"),
        *("meta-llama/Llama-3.1-8B-Instruct", "deepseek-ai/DeepSeek-R1", "Qwen/Qwen2.5-7B"),
        "github-copilot/gpt-4o",  # known, but not sold by the token
    ],
)
def test_a_model_without_a_price_costs_null_not_0(name: str) -> None:
    found = costs(call(name), call("gpt-4o"))
    assert found["cost_usd"][0] is None
    assert found["unpriced"].to_list() == [name, None]
    assert found["by_list"].to_list() == [False, True]


def test_costs_are_additive_where_the_package_counts_the_cache_in_the_input(
    listed: PriceList,
) -> None:
    for model in ("claude-sonnet-4-5", "claude-3-5-haiku-latest"):
        expected = theirs(
            listed,
            model,
            input_tokens=100 + 3_000 + 20_000,
            output_tokens=70,
            cache_read_tokens=3_000,
            cache_write_tokens=20_000,
        )
        found = costs(call(model, 100, 70, cache_read_tokens=3_000, cache_write_tokens=20_000))
        assert found["cost_usd"].item() == pytest.approx(expected, rel=1e-12)
        only_prompt = theirs(listed, model, input_tokens=100, output_tokens=70)
        assert found["cost_usd"].item() > only_prompt


def test_a_tier_holds_for_all_tokens_of_the_call(listed: PriceList) -> None:
    """Sonnet 4.5 costs more above 200,000 tokens of input, cached ones among them."""
    tokens = [(200_000, 0), (200_001, 0), (150_000, 50_000), (150_000, 50_001)]
    found = costs(*(call("claude-sonnet-4-5", p, 10, cache_read_tokens=r) for p, r in tokens))
    expected = [
        theirs(
            listed, "claude-sonnet-4-5", input_tokens=p + r, cache_read_tokens=r, output_tokens=10
        )
        for p, r in tokens
    ]
    assert found["cost_usd"].to_list() == pytest.approx(expected, rel=1e-12)
    assert found["cost_usd"][1] > 1.9 * found["cost_usd"][0]
    assert found["cost_usd"][3] > 1.9 * found["cost_usd"][2]


def test_every_model_of_the_list_costs_what_the_package_says(listed: PriceList) -> None:
    """All prices, tiers and gaps of the list against its own arithmetic."""
    providers, model_price = genai_prices.data.providers, genai_prices.types.ModelPrice
    noon = datetime.combine(listed.day, time(12, tzinfo=UTC))
    tokens = [(0, 0, 0, 0), (7, 3, 2, 1), (99_999, 5, 1, 0), (100_000, 5, 1, 0), (10**6, 9, 10, 10)]
    compared = 0
    for model in (model for provider in providers for model in provider.models):
        prices = model.get_prices(noon)
        tariff = read_tariff(prices)
        if tariff is None:
            assert prices.input_mtok is None or prices.output_mtok is None
            continue
        alone = {f"{key}_mtok": getattr(prices, f"{key}_mtok") for key in ("input", "output")}
        alone |= {
            f"{key}_mtok": price
            for key in ("cache_read", "cache_write")
            if (price := getattr(prices, f"{key}_mtok")) is not None
        }
        for p, c, r, w in tokens:
            read = r if "cache_read_mtok" in alone else 0
            write = w if "cache_write_mtok" in alone else 0
            usage = genai_prices.Usage(
                input_tokens=p + read + write,
                output_tokens=c,
                cache_read_tokens=read,
                cache_write_tokens=write,
            )
            expected = model_price(**alone).calc_price(usage)["total_price"]
            price = [step for above, step in tariff if p + read + write > above][-1]
            found = p * price.input + c * price.output
            found += read * (price.cache_read or 0) + write * (price.cache_write or 0)
            assert found / 1e6 == pytest.approx(float(expected), rel=1e-12), model.id
            compared += 1
    assert compared > 5000


def test_an_announced_price_does_not_hold_before_its_time(listed: PriceList) -> None:
    changing = [
        (f"{provider.id}/{model.id}", price.constraint.start_date, model)
        for provider in genai_prices.data.providers
        for model in provider.models
        if isinstance(model.prices, list)
        for price in model.prices
        if hasattr(price.constraint, "start_date")
    ]
    moved = 0
    for name, start, model in changing:
        before = PriceList(listed.version, start - timedelta(days=1)).find_tariff(name)
        after = PriceList(listed.version, start).find_tariff(name)
        noon = datetime.combine(start, time(12, tzinfo=UTC))
        if after == read_tariff(model.get_prices(noon)):  # the name is not another model's too
            moved += before != after
    assert moved > 5
    assert all(
        start <= listed.day or start > datetime.now(tz=UTC).date() for _, start, _ in changing
    )


def test_the_file_goes_before_the_list() -> None:
    prices = check_prices({"gpt-4o": {"input": 5, "output": 15}}, source="p.yaml")
    found = costs(call("gpt-4o", 1e6, 1e6), call("gpt-4o-mini", 1e6, 1e6), prices=prices)
    assert found["cost_usd"][0] == 20
    assert found["by_file"].to_list() == [True, False]
    assert found["by_list"].to_list() == [False, True]


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    open_price_list.cache_clear()
    assert costs(call("gpt-4o"), call("no-such-model"))["by_list"].to_list() == [True, False]


@pytest.fixture
def no_list(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    open_price_list.cache_clear()
    yield
    open_price_list.cache_clear()


@pytest.mark.usefixtures("no_list")
def test_without_the_extra_there_are_the_record_and_the_file() -> None:
    assert open_price_list() is None
    found = costs(call("gpt-4o"), call("claude"), call("gpt-4o", cost_usd=3.0), prices=PRICES)
    assert found["cost_usd"].to_list() == [None, 0.0045, 3.0]
    assert found["unpriced"].to_list() == ["gpt-4o", None, None]


def test_models_of_one_run_are_summed() -> None:
    used = {
        "claude-haiku-4-5-20251001": {"inputTokens": 4657, "outputTokens": 174},
        "claude-sonnet-4-5-20250929": {
            "inputTokens": 29,
            "outputTokens": 711,
            "cacheReadInputTokens": 113858,
            "cacheCreationInputTokens": 23350,
        },
    }
    recorded = 0.1379989  # what the agent that wrote this usage says it cost
    [group] = cal.score([{"usage": used}], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value == pytest.approx(recorded, abs=1e-9)
    listed = [{"model": name, **counts} for name, counts in used.items()]
    [group] = cal.score([{"usage": listed}], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value == pytest.approx(recorded, abs=1e-9)
    [group] = cal.score([{"usage": used, "cost_usd": 0.5}], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value == 0.5


@pytest.mark.parametrize(
    "used",
    [
        {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
        {"input_tokens": 1000, "output_tokens": 100, "server_tool_use": None},
        {"completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 0}},
    ],
)
def test_the_usage_of_a_reply_is_of_the_records_model(used: dict[str, Any]) -> None:
    record = {"id": "a", "model": "gpt-4o", "prompt_tokens": 1000, "usage": used}
    [group] = cal.score([record], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value == pytest.approx((1000 * 2.5 + 100 * 10) / 1e6)
    [group] = cal.score([{"id": "a", "correct": True, "usage": used}]).groups
    assert group.metrics["accuracy"].value == 1.0
    [group] = cal.score(
        [{"judgments": [{"judge": "gpt-4o", "usage": {**used, "input_tokens": 1000}}]}],
        metrics=["judge_cost_usd"],
    ).groups
    assert group.metrics["judge_cost_usd"].value == pytest.approx((1000 * 2.5 + 100 * 10) / 1e6)


def test_a_model_without_a_price_leaves_the_whole_run_without_a_cost() -> None:
    used = {
        "gpt-4o": {"prompt_tokens": 10, "completion_tokens": 1},
        "home-made": {"input_tokens": 5, "output_tokens": 5},
    }
    [group] = cal.score([{"usage": used}], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value is None
    assert "home-made" in str(group.metrics["cost_usd"].reason)
    priced_too = used | {"home-made": used["home-made"] | {"cost_usd": 1.0}}
    [group] = cal.score([{"usage": priced_too}], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value == pytest.approx(1.0 + (10 * 2.5 + 10) / 1e6)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"gpt-4o"', "mapping from model"),
        ("[3]", "not a model with its tokens"),
        ('{"gpt-4o": 3}', "not a model with its tokens"),
        ('[{"input_tokens": 3}]', "not a model with its tokens"),
        ('{"gpt-4o": {"input_tokens": -3}}', "input_tokens: -3 is negative"),
        ('{"gpt-4o": {"costUSD": "free"}}', 'costUSD: "free" is not a number'),
        ("[" * 100_000, "mapping from model"),
    ],
)
def test_a_usage_that_is_none_says_why(text: str, problem: str) -> None:
    with pytest.raises(BadValue, match=re.escape(problem)):
        read_usage(text)


def test_judges_are_priced_by_their_model() -> None:
    judgments = [
        {"judge": "gpt-4o", "prompt_tokens": 1000, "completion_tokens": 100},
        {"judge": "second", "usage": {"gpt-4o": {"prompt_tokens": 1000, "completion_tokens": 100}}},
        {"judge": "third", "cost_usd": 0.25},
    ]
    rows = [{"cost_usd": 1.0, "passed": True, "judgments": judgments}, {"cost_usd": 2.0}]
    apart = cal.score(rows, metrics=["cost_usd", "judge_cost_usd"]).groups[0].metrics
    assert apart["cost_usd"].value == 1.5
    assert apart["judge_cost_usd"].value == pytest.approx(0.257)
    included = cal.score(rows, metrics=["cost_usd", "cost_of_pass"], judge_cost="included")
    assert included.groups[0].metrics["cost_usd"].value == pytest.approx(1.5 + 0.257 / 2)
    assert included.groups[0].metrics["cost_of_pass"].value == pytest.approx(1.257)
    unsaid = [*judgments, {"judge": "fourth"}]
    rows = [{"cost_usd": 1.0, "judgments": unsaid}]
    found = cal.score(rows, metrics=["judge_cost_usd"]).groups[0].metrics["judge_cost_usd"]
    assert (found.value, found.missing) == (None, 1)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_bad_usage_is_named_with_its_row(suffix: str, tmp_path: Path) -> None:
    good = {"gpt-4o": {"input_tokens": 3, "output_tokens": 1}}
    bad = {"gpt-4o": {"input_tokens": -3, "output_tokens": 1}}
    rows = [{"id": "a", "usage": json.dumps(good)}, {"id": "b", "usage": json.dumps(bad)}]
    path = tmp_path / f"runs{suffix}"
    if suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        loaded = ({**row, "usage": json.loads(row["usage"])} for row in rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in loaded), encoding="utf-8")
    with pytest.raises(DataError, match=r"runs\.\w+:2: usage: input_tokens: -3(\.0)? is negative"):
        cal.score(path, metrics=["cost_usd"])
    skipped = cal.score(path, metrics=["cost_usd"], on_bad="skip")
    assert skipped.groups[0].metrics["cost_usd"].n == 1


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize(
    ("judgment", "problem"),
    [
        ({"cost_usd": -1}, "judgment 2: cost_usd: -1 is negative"),
        ({"usage": {"gpt-4o": {"input_tokens": "x"}}}, 'judgment 2: input_tokens: "x" is not a'),
        ({"weighted_score": 1.5}, "judgment 2: weighted_score: 1.5 is outside [0, 1]"),
        ({"passed": "yes"}, 'judgment 2: passed: "yes" is not true or false'),
        (5, "judgment 2 is not an object"),
    ],
)
def test_a_bad_judgment_is_named_with_its_row(
    judgment: object, problem: str, suffix: str, tmp_path: Path
) -> None:
    good = {"judge": "a", "passed": True, "weighted_score": 0.5, "cost_usd": 0.1}
    judgments = {"a": [good], "b": [good, judgment]}
    path = tmp_path / f"runs{suffix}"
    if suffix == ".jsonl":
        lines = (json.dumps({"id": name, "judgments": of}) for name, of in judgments.items())
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        texts = [json.dumps(of) for of in judgments.values()]
        table = pl.DataFrame({"id": list(judgments), "judgments": texts})
        table.write_csv(path) if suffix == ".csv" else table.write_parquet(path)
    metrics = ["pass_rate", "impl_rate", "judge_cost_usd"]
    with pytest.raises(DataError, match=rf":2: judgments: {re.escape(problem)}"):
        cal.score(path, metrics=metrics)
    skipped = cal.score(path, metrics=metrics, on_bad="skip").groups[0].metrics
    assert [skipped[name].value for name in metrics] == [1.0, 0.5, 0.1]
