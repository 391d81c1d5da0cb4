"""Samples of lm-evaluation-harness (`samples_TASK_TIME.jsonl`), a line per document and filter.

One filter counts, the first, unless the records are told apart by their `filter`: a document is one
task, however many ways there are to find its answer. The model's name is in the results beside.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import exp
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import (
    listed,
    mapping,
    number,
    numbered_lines,
    target_fields,
    text,
    truth,
    whole,
)
from calipers.support.errors import DataError
from calipers.support.registry import register

_KEYS = {"doc_id", "doc", "arguments", "resps", "filtered_resps"}
_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
_UNCONDITIONAL = "acc_mutual_info"
_NONE = "bypass"  # the metric of --predict_only
_LOOKED_AT = 1_000  # lines, to find what decides
_INPUTS = ("question", "query", "input", "problem", "prompt")


def _fits(line: Any) -> bool:
    return mapping(line).keys() >= _KEYS


def _refuse_results(document: Any, path: Path) -> None:
    found = mapping(document)
    if "results" in found and "lm_eval_version" in found:
        raise DataError(
            f"{path}: results of lm-eval, without its samples",
            fix="run lm-eval with --log_samples, and name the samples_….jsonl beside it",
        )


def _records(path: Path, keys: Collection[str]) -> Iterator[Found]:
    named = _NAME.match(path.name)
    task = named["task"] if named else None
    model = _model(path, named["time"]) if named else None
    lines = ((line, done) for _, line, done in numbered_lines(path))
    first = list(islice(lines, _LOOKED_AT))
    counted = first[0][0].get("filter") if first else None
    decisive = _decisive([line for line, _ in first])
    for line, done in chain(first, lines):
        counts = "filter" in keys or line.get("filter") == counted
        record = {"model": model, "task": task, **_record(line, task, decisive)} if counts else None
        yield record, done


def _model(samples: Path, time: str) -> str | None:
    """From the results of the same time: `results_TIME.json`, or as `--output_path` named it."""
    for results in sorted(samples.parent.glob(f"*_{time}.json")):
        found = mapping(whole(results))
        return text(found.get("model_name") or mapping(found.get("config")).get("model"))
    return None


def _scores(line: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics; old versions do not list them, and have them last."""
    if "metrics" in line:
        names = [name for name in listed(line["metrics"]) if isinstance(name, str)]
    else:
        names = [name for name, value in line.items() if isinstance(value, float)]
    return {name: line.get(name) for name in names if name != _NONE}


def _decisive(lines: Sequence[Mapping[str, Any]]) -> str | None:
    """The first metric that says right or wrong of every document; one between would be partial."""
    said: dict[str, list[bool | None]] = {}
    for line in lines:
        for name, value in _scores(line).items():
            if _figure(value) is not None:
                said.setdefault(name, []).append(truth(value))
    return next((name for name, each in said.items() if None not in each), None)


def _record(line: Mapping[str, Any], task: str | None, decisive: str | None) -> Record:
    doc = mapping(line.get("doc"))
    scores = _scores(line)
    replies = _likelihoods(line)
    asked = _is_text_asked(line)
    answer = _chosen(replies) if replies else _first(line.get("filtered_resps")) if asked else None
    said = _first(line.get("resps")) if asked and not replies else None
    correct = None if decisive is None else truth(scores.get(decisive))
    name = line.get("doc_id")
    return {
        "id": f"{task}/{name}" if task else name,
        "category": text(doc.get("category", doc.get("subject"))),
        "input": next((text(doc[key]) for key in _INPUTS if doc.get(key)), None),
        **target_fields(text(line.get("target")), correct=correct, judged=bool(scores)),
        "answer": answer,
        "cot": said if said != answer else None,
        "correct": correct,
        "prob_correct": _confidence(replies) if replies else None,
        "filter": line.get("filter"),
        **{f"score_{each}": _figure(value) for each, value in scores.items()},
    }


def _figure(value: Any) -> bool | float | None:
    """A score of one document; some are lists, to be put together later."""
    return value if isinstance(value, bool) else number(value)


def _is_text_asked(line: Mapping[str, Any]) -> bool:
    """Not where only the likelihood of a document was: such a request has nothing beside it."""
    request = mapping(mapping(line.get("arguments")).get("gen_args_0"))
    return not request or "arg_1" in request


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
    if len(known) != len(replies):
        return []
    if _UNCONDITIONAL in listed(line.get("metrics")):  # each choice once more, without its question
        known = known[: len(known) // 2]
    return known if len(known) > 1 else []


def _log(value: Any) -> float | None:
    try:
        return number(float(value))
    except (TypeError, ValueError, OverflowError):
        return None


def _chosen(likelihoods: list[float]) -> str:
    return str(likelihoods.index(max(likelihoods)))


def _confidence(likelihoods: list[float]) -> float:
    """The chosen one's share of the likelihood of all."""
    most = max(likelihoods)
    return 1 / sum(exp(each - most) for each in likelihoods)


register(
    LogReader(
        name="lm-eval",
        fits=_fits,
        records=_records,
        refuse=_refuse_results,
        in_folders="samples_*.jsonl",
        left_out="lines of other filters than the first were left out; --by filter shows each",
    )
)
