"""Options of `calipers judge`, and the work that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

from calipers.judges.judging import Work
from calipers.judges.models import Pace
from calipers.judges.pairwise import PREFERENCE, PairWork
from calipers.judges.spec import JudgeSpec
from calipers.metrics.cost.prices import Prices, read_prices
from calipers.support.arguments import as_files, as_path
from calipers.support.config.files import ConfigFile
from calipers.support.errors import ArgumentTypeError, UsageError, nearest

_EXAMPLE = "--model openai:gpt-4o-mini"


class Judging(TypedDict, total=False):
    """By whom records are judged, and how."""

    rubric: str | None  # a built-in one, or a file; may be left out where answers are compared
    model: Required[str | Sequence[str]]  # several are a panel
    name: str | None  # of the judge; else the model's
    base_url: str | None
    api_key_env: str | None
    limit: int | None  # characters of a long text
    samples: int  # judgments by each judge
    escalate: str | None  # the model to ask where the first one is unsure
    near: float  # unsure: a score at most this far from `pass_at`
    below: float | None  # unsure: a stated confidence below this
    settings: Mapping[str, Any] | None  # of the models; temperature 0 where nothing is said
    budget_usd: float | None  # over all runs with this output
    budget_calls: int | None
    prices: str | Path | None  # of models, USD per million tokens
    cache: str | Path | None
    concurrency: int
    retries: int
    timeout: float
    map: Mapping[str, str] | None
    source: str | None  # the reader of the files, where they are logs of another tool
    join: str | Path | None  # tasks, whose fields the records are given
    on: str | None  # the field that is the same in record and task
    on_bad: Literal["stop", "skip"]
    pairwise: bool  # compare the answers of two files, in both orders


def make_work(
    files: str | Path | Sequence[str | Path], output: str | Path, judging: Judging
) -> Work:
    """Return what to judge, by whom, and where the output goes."""
    _check_keywords(judging)
    model = judging["model"]
    models = [model] if isinstance(model, str) else list(model)
    if judging.get("name") is not None and len(models) > 1:
        raise UsageError(
            "--name is for a single --model", fix="leave it out: judges are named as their models"
        )
    prices = None if judging.get("prices") is None else read_prices(str(judging["prices"]))
    judges = [_make_judge(each, judging, prices) for each in models]
    names = [judge.name for judge in judges]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two judges are called {name}", fix="--samples N asks one model several times"
            )
    cache = judging.get("cache")
    kind = PairWork if judging.get("pairwise") else Work
    return kind(
        files=[str(each) for each in as_files("files", files)],
        judges=judges,
        output=as_path("output", output),
        pace=Pace(
            concurrency=judging.get("concurrency", 32),
            retries=judging.get("retries", 5),
            timeout_seconds=judging.get("timeout", 120.0),
        ),
        cache=None if cache is None else Path(cache),
        map=judging.get("map") or {},
        skip_bad=judging.get("on_bad", "stop") == "skip",
        price_file=None if prices is None else Path(prices.source).name,
        budget_usd=_read_positive(judging, "budget_usd", "for example 0.50"),
        budget_calls=_read_positive(judging, "budget_calls", "for example 1000"),
    )


def _check_keywords(judging: Judging) -> None:
    """Raise ArgumentTypeError for an unknown option, or if no model is named."""
    known = Judging.__annotations__
    for name in judging:
        if name not in known:
            raise ArgumentTypeError(
                f"judge_records() has no option {name}", fix=nearest(name, known)
            )
    if "model" not in judging:
        raise ArgumentTypeError(
            "judge_records(): model is missing", fix='for example model="openai:gpt-4o-mini"'
        )


def _make_judge(model: str, judging: Judging, prices: Prices | None) -> JudgeSpec:
    served = {key: judging.get(key) for key in ("base_url", "api_key_env")}
    given: dict[str, Any] = {
        "name": judging.get("name") or model.partition(":")[2] or model,
        "model": model,
        "rubric": _choose_rubric(judging),
        "limit": judging.get("limit"),
        "samples": judging.get("samples", 1),
        "price": _find_price(model, prices),
        **served,
    }
    if (settings := judging.get("settings")) is not None:
        given["settings"] = dict(settings)
    if (then := judging.get("escalate")) is not None:
        given["escalate"] = {
            "model": then,
            "near": judging.get("near", 0.1),
            "confidence": judging.get("below"),
            "price": _find_price(then, prices),
            **({} if settings is None else {"settings": dict(settings)}),
            **served,
        }
    return JudgeSpec.of(ConfigFile("judge", given), example=_EXAMPLE)


def _choose_rubric(judging: Judging) -> str:
    found = judging.get("rubric")
    if found is not None:
        return str(found)
    if not judging.get("pairwise"):
        raise UsageError(
            "--rubric is missing: what the judge grades by",
            fix="technical_accuracy, constructiveness, planning_rationality, or a rubric file",
        )
    return PREFERENCE


def _read_positive(judging: Judging, name: Literal["budget_usd", "budget_calls"], fix: str) -> Any:
    found = judging.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not (isfinite(found) and found > 0):
        raise UsageError(f"{name} {found}: not a number above 0", fix=fix)
    return found


def _find_price(model: str, prices: Prices | None) -> dict[str, float | None] | None:
    """Return the price in the user's file, by the model's name as providers write it."""
    price = None if prices is None else prices.find(model)
    return None if price is None else asdict(price)
