"""From the options of `calipers judge` to the work that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calipers.judges.judging import Work
from calipers.judges.models import Pace
from calipers.judges.options import JudgeOptions
from calipers.judges.pairwise import PREFERENCE, PairWork
from calipers.judges.spec import JudgeSpec
from calipers.metrics.cost.prices import Prices, read_prices
from calipers.records.options import ReadingOptions
from calipers.scores.choices import take_own
from calipers.support.arguments import as_files, as_path, read_keywords
from calipers.support.config.files import ConfigFile
from calipers.support.errors import UsageError

_EXAMPLE = "--model openai:gpt-4o-mini"


def make_work(
    files: str | Path | Sequence[str | Path], output: str | Path, options: Mapping[str, Any]
) -> Work:
    """Return what to judge, by whom, and where the output goes."""
    asked, others = take_own("judge", JudgeOptions, options)
    reading = read_keywords("judge", ReadingOptions, others)
    if asked.name is not None and len(asked.model) > 1:
        raise UsageError(
            "--name is for a single --model", fix="leave it out: judges are named as their models"
        )
    if asked.cache is not None and asked.cache.is_file():
        raise UsageError(f"--cache {asked.cache}: a file, not a folder", fix="name a folder")
    prices = None if asked.prices is None else read_prices(str(asked.prices))
    judges = [_make_judge(each, asked, prices) for each in asked.model]
    names = [judge.name for judge in judges]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two judges are called {name}", fix="--samples N asks one model several times"
            )
    kind = PairWork if asked.pairwise else Work
    return kind(
        files=[str(each) for each in as_files("files", files)],
        judges=judges,
        output=as_path("output", output),
        pace=Pace(
            concurrency=asked.concurrency, retries=asked.retries, timeout_seconds=asked.timeout
        ),
        cache=asked.cache,
        map=reading.map,
        skip_bad=reading.on_bad == "skip",
        price_file=None if prices is None else Path(prices.source).name,
        budget_usd=asked.budget_usd,
        budget_calls=asked.budget_calls,
    )


def _make_judge(model: str, asked: JudgeOptions, prices: Prices | None) -> JudgeSpec:
    shared: dict[str, Any] = {"base_url": asked.base_url, "api_key_env": asked.api_key_env}
    if asked.settings is not None:
        shared["settings"] = dict(asked.settings)
    given: dict[str, Any] = {
        "name": asked.name or model.partition(":")[2] or model,
        "model": model,
        "rubric": _choose_rubric(asked),
        "limit": asked.limit,
        "samples": asked.samples,
        "price": _find_price(model, prices),
        **shared,
    }
    if asked.escalate is not None:
        given["escalate"] = {
            "model": asked.escalate,
            "near": asked.near,
            "confidence": asked.below,
            "price": _find_price(asked.escalate, prices),
            **shared,
        }
    return JudgeSpec.of(ConfigFile("judge", given), example=_EXAMPLE)


def _choose_rubric(asked: JudgeOptions) -> str:
    if asked.rubric is None and not asked.pairwise:
        raise UsageError(
            "--rubric is missing: what the judge grades by",
            fix="technical_accuracy, constructiveness, planning_rationality, or a rubric file",
        )
    return asked.rubric or PREFERENCE


def _find_price(model: str, prices: Prices | None) -> dict[str, float | None] | None:
    """Return the price in the user's file, by the model's name as providers write it."""
    price = None if prices is None else prices.find(model)
    return None if price is None else asdict(price)
