"""Samples of lm-evaluation-harness (`samples_TASK_TIME.jsonl`), a line per document and filter.

One filter counts, the first, unless the records are told apart by their `filter`: a document is one
task, however many ways there are to find its answer. The model's name is in the results beside.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from math import exp
from pathlib import Path
from typing import Any

from calipers.sources.logs.log import Found, LogFormat, Record
from calipers.sources.logs.parts import (
    listed,
    mapping,
    number,
    numbered_lines,
    text,
    truth,
    whole,
)

_KEYS = {"doc_id", "doc", "arguments", "resps", "filtered_resps"}
_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
_INPUTS = ("question", "query", "input", "problem", "prompt")


def _fits(line: Any) -> bool:
    return mapping(line).keys() >= _KEYS


def _records(path: Path, keys: Collection[str]) -> Iterator[Found]:
    named = _NAME.match(path.name)
    task = named["task"] if named else None
    model = _model(path.with_name(f"results_{named['time']}.json")) if named else None
    counted: Any = None
    for place, (_, line, done) in enumerate(numbered_lines(path)):
        if not place:
            counted = line.get("filter")
        counts = "filter" in keys or line.get("filter") == counted
        yield ({"model": model, "task": task, **_record(line, task)} if counts else None), done


def _model(results: Path) -> str | None:
    if not results.is_file():
        return None
    found = mapping(whole(results))
    return text(found.get("model_name") or mapping(found.get("config")).get("model"))


def _record(line: Mapping[str, Any], task: str | None) -> Record:
    doc = mapping(line.get("doc"))
    metrics = [name for name in listed(line.get("metrics")) if isinstance(name, str)]
    scores = {name: line.get(name) for name in metrics}
    replies = _likelihoods(line)
    answer = _chosen(replies) if replies else _first(line.get("filtered_resps"))
    said = None if replies else _first(line.get("resps"))
    name = line.get("doc_id")
    return {
        "id": f"{task}/{name}" if task else name,
        "category": text(doc.get("category", doc.get("subject"))),
        "input": next((text(doc[key]) for key in _INPUTS if doc.get(key)), None),
        "target": text(line.get("target")),
        "answer": answer,
        "cot": said if said != answer else None,
        "correct": next(
            (known for each in scores.values() if (known := truth(each)) is not None), None
        ),
        "prob_correct": _confidence(replies) if replies else None,
        "filter": line.get("filter"),
        **{f"score_{each}": number(value) for each, value in scores.items()},
    }


def _first(replies: Any) -> str | None:
    """The first reply to the first request."""
    while isinstance(replies, list):
        if not replies or _is_likelihood(replies):
            return None
        replies = replies[0]
    return text(replies)


def _is_likelihood(reply: Any) -> bool:
    """A pair of the logarithm of a text's likelihood and whether it is what the model would say."""
    return isinstance(reply, list) and len(reply) == 2 and str(reply[1]) in ("True", "False")  # noqa: PLR2004


def _likelihoods(line: Mapping[str, Any]) -> list[float]:
    """The logarithms of the choices' likelihoods, where the model was not asked for a text."""
    replies = listed(line.get("filtered_resps"))
    found = [_log(reply[0]) for reply in replies if _is_likelihood(reply)]
    known = [each for each in found if each is not None]
    return known if len(known) == len(replies) > 1 else []


def _log(value: Any) -> float | None:
    try:
        return number(float(value))
    except (TypeError, ValueError):
        return None


def _chosen(likelihoods: list[float]) -> str:
    return str(likelihoods.index(max(likelihoods)))


def _confidence(likelihoods: list[float]) -> float:
    """The chosen one's share of the likelihood of all."""
    most = max(likelihoods)
    return 1 / sum(exp(each - most) for each in likelihoods)


LM_EVAL = LogFormat(
    name="lm-eval",
    fits=_fits,
    records=_records,
    left_out="lines of other filters than the first were left out; --by filter shows each",
)
