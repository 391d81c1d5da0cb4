"""What a user can ask of `judge` and `judge audit`, and not of `score`.

A field that `option` makes is an option of the command line and a keyword in Python.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.support.errors import UsageError
from calipers.support.options import flag, option

if TYPE_CHECKING:
    from calipers.judges.rubric_items import RubricWeights


def _parse_settings(given: tuple[str, ...]) -> dict[str, Any]:
    """Return NAME=VALUE pairs as a mapping; a value is JSON, or else a text."""
    settings: dict[str, Any] = {}
    for setting in given:
        name, mark, value = setting.partition("=")
        if not (name.strip() and mark) or name.strip() in settings:
            what = "it is there twice" if mark else "it is not NAME=VALUE"
            raise UsageError(
                f"--setting {setting}: {what}", fix="for example --setting temperature=0"
            )
        try:
            settings[name.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            settings[name.strip()] = value
    return settings


_judging = partial(option, group="judging")
_calls = partial(option, group="calls")


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """By whom records are judged, and how."""

    rubric: str | None = _judging(
        None,
        "Rubric: technical_accuracy, constructiveness, planning_rationality, or a rubric file; "
        "with --pairwise it may be left out.",
        metavar="R",
    )
    pairwise: bool = flag(
        "Compare the answers of two FILES, A and B, to the same tasks, each pair in both orders.",
        group="judging",
    )
    model: tuple[str, ...] = _judging(
        MISSING,
        "The judge, as in openai:gpt-4o-mini; several are a panel (repeatable).",
        metavar="M",
    )
    name: str | None = _judging(
        None, "Name of the judge in the records; by default the model's.", metavar="NAME"
    )
    limit: int | None = _judging(
        None,
        "Cut texts after the last paragraph within N characters; by default as the rubric says.",
        metavar="N",
        at_least=100,
    )
    samples: int = _judging(
        1, "Number of judgments of each record by each judge.", metavar="N", at_least=1, at_most=100
    )
    escalate: str | None = _judging(
        None,
        "A better judge, asked where the first is unsure, flagged, or gives no usable answer.",
        metavar="M",
    )
    near: float = _judging(
        0.1,
        "With --escalate: a score within S of the rubric's pass_at is escalated.",
        metavar="S",
        at_least=0,
        at_most=1,
    )
    below: float | None = _judging(
        None,
        "With --escalate: ask the first judge for its confidence, and escalate below C.",
        metavar="C",
        above=0,
        at_most=1,
    )
    base_url: str | None = _calls(
        None, "URL of a server with an OpenAI-compatible API.", metavar="URL"
    )
    api_key_env: str | None = _calls(
        None, "The environment variable that holds the key.", metavar="NAME"
    )
    settings: Mapping[str, Any] | None = _calls(
        None,
        "A setting of the models, such as temperature=0.5 or max_tokens=800 (repeatable). "
        "Without it, temperature 0 where the model takes it.",
        kind="any",
        flag="--setting",
        metavar="NAME=VALUE",
        python="Mapping[str, Any] | None",
        parse=_parse_settings,
    )
    budget_usd: float | None = _calls(
        None,
        "Stop before judging costs more than this, over all runs with this output.",
        metavar="USD",
        above=0,
        fix="for example 0.50",
    )
    budget_calls: int | None = _calls(
        None,
        "Stop before more answers than this are asked for, over all runs with this output.",
        metavar="N",
        at_least=1,
        fix="for example 1000",
    )
    prices: Path | None = _calls(
        None, "Prices, YAML or JSON: {MODEL: {input: 3, output: 15}}, USD per million tokens."
    )
    cache: Path | None = _calls(
        None, "Cache judgments in FOLDER, and reuse them.", metavar="FOLDER"
    )
    concurrency: int = _calls(32, "Calls in flight at a time.", metavar="N", at_least=1)
    retries: int = _calls(
        5,
        "Attempts after the first, on rate limits, server errors and broken connections.",
        metavar="N",
        at_least=0,
    )
    timeout: float = _calls(120.0, "Time limit of one attempt.", metavar="SECONDS", above=0)


def _read_weights(given: str | Path | Mapping[str, Any] | None) -> "RubricWeights | None":
    from calipers.judges.rubric_items import read_rubric_weights  # noqa: PLC0415 (loads Polars)

    return None if given is None else read_rubric_weights(given)


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What a user can ask of an audit."""

    weights: "RubricWeights | None" = option(
        None,
        "Weights of rubric items, categories or criteria, YAML or JSON: {NAME: 0.6}.",
        group="input",
        kind="any",
        metavar="FILE",
        python="str | Path | Mapping[str, Any] | None",
        read=_read_weights,
    )
    worst: int = option(
        5,
        "How many of the scores that differ from the sum of their rubric items to list per judge.",
        group="output",
        metavar="N",
        at_least=0,
    )
    before: Any = option(
        None,
        "Judgments of the same answers by an earlier run: say whether a judge has changed.",
        group="input",
        metavar="FILE",
    )
