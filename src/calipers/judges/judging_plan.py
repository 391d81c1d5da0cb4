"""From the options of `calipers judge` to its work, and an estimate of the calls and the cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calipers.judges.ask import Judgment, Pace
from calipers.judges.judge_files import (
    JudgeJournal,
    Place,
    Work,
    check_places,
    has_answer,
    locate_journal,
)
from calipers.judges.judge_options import JudgeOptions
from calipers.judges.judge_spec import JudgeSpec
from calipers.judges.pairwise import PREFERENCE, PairWork
from calipers.judges.request import NothingToJudge, make_request
from calipers.judges.rubrics import Rubric
from calipers.metrics.token_prices import Prices, read_prices
from calipers.records.reading_options import ReadingOptions
from calipers.scores.resolve_options import split_own_options
from calipers.support.config import ConfigFile
from calipers.support.errors import UsageError
from calipers.support.options import as_files, as_path, read_keywords
from calipers.systems.budget import (
    SuiteEstimate,
    SystemEstimate,
    estimate_tokens,
    find_pricing,
    limit_output,
)
from calipers.systems.journal import Journal

_EXAMPLE = "--model openai:gpt-4o-mini"


def make_work(
    files: str | Path | Sequence[str | Path], output: str | Path, options: Mapping[str, Any]
) -> Work:
    """Return what to judge, by whom, and where the output goes."""
    asked, others = split_own_options("judge", JudgeOptions, options)
    reading = read_keywords("judge", ReadingOptions, others)
    if asked.name is not None and len(asked.model) > 1:
        raise UsageError(
            "--name is for a single --model", fix="leave it out: judges are named as their models"
        )
    if asked.cache is not None and asked.cache.is_file():
        raise UsageError(f"--cache {asked.cache}: a file, not a folder", fix="name a folder")
    prices = None if asked.prices is None else read_prices(str(asked.prices))
    judges = [_make_judge(model, asked, prices) for model in asked.model]
    names = [judge.name for judge in judges]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two judges are called {name}", fix="--samples N asks one model several times"
            )
    kind = PairWork if asked.pairwise else Work
    return kind(
        files=[str(file) for file in as_files("files", files)],
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


def estimate_judging(work: Work) -> SuiteEstimate:
    """Count what the output lacks; nothing is called, and nothing written."""
    rubrics = work.rubrics()
    check_places(work)
    done = _read_done(work, rubrics)
    asked: dict[str, list[int]] = {judge.name: [] for judge in work.judges}
    by_name = {j.name: (j, r) for j, r in zip(work.judges, rubrics, strict=True)}
    for key, record in work.records(lambda _: None):
        for place in work.list_places(key) if has_answer(record) else ():
            before = done.get(place)
            if before is None or before.failed:
                tokens = _count_tokens(*by_name[place[1]], work.rename(record))
                asked[place[1]] += [] if tokens is None else [tokens]
    rows = [
        _estimate_model(model, asked[judge.name], work.price_file, is_second=at > 0)
        for judge in work.judges
        for at, model in enumerate(judge.models)
    ]
    return SuiteEstimate(systems=tuple(rows))


def _read_done(work: Work, rubrics: Sequence[Rubric]) -> Mapping[Place, Judgment]:
    path = locate_journal(work.output)
    if not path.exists() or not path.stat().st_size:
        return {}
    with closing(Journal(path)) as journal:
        return JudgeJournal(journal, work.judges, rubrics).done


def _count_tokens(judge: JudgeSpec, rubric: Rubric, record: Mapping[str, Any]) -> int | None:
    try:
        asked = make_request(rubric, record, asks_confidence=judge.asks_confidence)
    except NothingToJudge:
        return None
    return estimate_tokens(asked.whole)


def _estimate_model(
    judge: JudgeSpec, prompts: Sequence[int], price_file: str | None, *, is_second: bool
) -> SystemEstimate:
    """Return the estimate of one model's calls; of a second one, the most there may be."""
    pricing, most = find_pricing(judge), limit_output(judge.settings)
    source = None if pricing is None else pricing.source

    def sum_usd(output: int | None) -> float | None:
        if pricing is None or output is None:
            return None
        return sum(pricing.price_tokens(input=n, output=output) for n in prompts)

    return SystemEstimate(
        name=f"{judge.model}, where unsure" if is_second else judge.name,
        calls=len(prompts),
        input_tokens=sum(prompts),
        output_tokens=None if most is None else most * len(prompts),
        input_usd=sum_usd(0),
        most_usd=sum_usd(most),
        price=source if judge.price is None else price_file,
    )
