"""Prices from the list: models are found as providers write them, and cost what the package says."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

import pytest

from calipers.metrics.token_prices import (
    PriceList,
    _look_up,
    check_prices,
    open_price_list,
    read_tariff,
)

pytest.importorskip("genai_prices.data")
from tests.metrics.prices_at_hand import PRICES, call, costs, listed

__all__ = ["listed"]

genai_prices = pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")


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
        *("ft:gpt-4o-2024-08-06:acme::x1", "Claude Opus 45", "me/gpt-4o", "my-models/gpt-4o"),
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


def test_a_list_that_cannot_be_loaded_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices.data", None)
    for each in (open_price_list, _look_up):
        each.cache_clear()
    try:
        assert open_price_list() is None
        assert costs(call("gpt-4o"))["unpriced"].to_list() == ["gpt-4o"]
    finally:
        for each in (open_price_list, _look_up):
            each.cache_clear()
