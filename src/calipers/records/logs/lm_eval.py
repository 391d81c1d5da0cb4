"""Samples of lm-evaluation-harness (`samples_TASK_TIME.jsonl`), a line per document and filter.

Only the first filter counts, unless records are grouped by `filter`: a document is one task,
however many filters extract its answer. The model's name is in the results file beside it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import exp
from pathlib import Path
from typing import Any

from calipers.records.logs.conversations import USER, read_said
from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    as_truth,
    has_keys,
    place_target,
    read_json_lines,
    read_text,
    read_whole,
)
from calipers.support.errors import DataError
from calipers.support.registry import register

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
_UNCONDITIONAL = "acc_mutual_info"
_NONE = "bypass"  # the metric of --predict_only
_LOOKED_AT = 1_000  # lines, to find what decides
_INPUTS = ("question", "query", "input", "problem", "prompt")


def _refuse_results(document: Any, path: Path) -> None:
    if has_keys("results", "lm_eval_version")(document):
        raise DataError(
            f"{path}: results of lm-eval, without its samples",
            fix="run lm-eval with --log_samples, and name the samples_….jsonl beside it",
        )


def _read_records(path: Path, keys: Collection[str]) -> Iterator[Found]:
    named = _NAME.match(path.name)
    task = named["task"] if named else None
    shared = {"model": _find_model(path, named["time"]) if named else None, "task": task}
    lines = read_json_lines(path)
    first = list(islice(lines, _LOOKED_AT))
    counted = first[0][0].get("filter") if first else None
    decisive = _find_decisive([line for line, _ in first])
    for line, done in chain(first, lines):
        counts = "filter" in keys or line.get("filter") == counted
        yield (shared | _make_record(line, task, decisive)) if counts else None, done


def _find_model(samples: Path, time: str) -> str | None:
    """Return the model named in the results of the same time, or in the output path."""
    for results in sorted(samples.parent.glob(f"*_{time}.json")):
        found = as_mapping(read_whole(results))
        return read_text(found.get("model_name") or as_mapping(found.get("config")).get("model"))
    return None


def _read_scores(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics; old versions do not list them and have them last."""
    if "metrics" in line:
        names = [name for name in as_list(line["metrics"]) if isinstance(name, str)]
    else:
        names = [name for name, value in line.items() if isinstance(value, float)]
    return {name: line.get(name) for name in names if name != _NONE}


def _find_decisive(lines: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the first metric that says right or wrong about every document, or None."""
    said: dict[str, list[bool | None]] = {}
    for line in lines:
        for name, value in _read_scores(line).items():
            if _read_figure(value) is not None:
                said.setdefault(name, []).append(as_truth(value))
    return next((name for name, each in said.items() if None not in each), None)


def _make_record(line: Mapping[str, Any], task: str | None, decisive: str | None) -> Record:
    doc = as_mapping(line.get("doc"))
    scores = _read_scores(line)
    replies = _read_likelihoods(line)
    asked = _is_text_asked(line)
    answer = said = None
    if replies:
        answer = str(replies.index(max(replies)))
    elif asked:
        answer, said = _take_first(line.get("filtered_resps")), _take_first(line.get("resps"))
    correct = None if decisive is None else as_truth(scores.get(decisive))
    name = line.get("doc_id")
    return {
        "id": f"{task}/{name}" if task else name,
        "category": read_text(doc.get("category", doc.get("subject"))),
        "input": next((read_text(doc[key]) for key in _INPUTS if doc.get(key)), None)
        or _read_request(line.get("arguments")),
        **place_target(read_text(line.get("target")), correct=correct, judged=bool(scores)),
        "answer": answer,
        "cot": said if said != answer else None,
        "correct": correct,
        "prob_correct": _compute_confidence(replies) if replies else None,
        "filter": line.get("filter"),
        **{f"score_{each}": _read_figure(value) for each, value in scores.items()},
    }


def _read_figure(value: Any) -> bool | float | None:
    """Return a score of one document; some are lists, to be aggregated later."""
    return value if isinstance(value, bool) else as_number(value)


def _is_text_asked(line: Mapping[str, Any]) -> bool:
    """Say whether a text was asked for, not just the likelihood of the document."""
    request = as_mapping(as_mapping(line.get("arguments")).get("gen_args_0"))
    return not request or "arg_1" in request


def _read_request(arguments: Any) -> str | None:
    """Return what was asked, of the first request; old versions have a list of these."""
    first = as_mapping(arguments).get("gen_args_0")
    listed = as_list(arguments)
    asked = as_mapping(first).get("arg_0") if first else next(iter(as_list(listed[:1])), None)
    while isinstance(asked, list) and asked and not isinstance(asked[0], dict):
        asked = asked[0]
    return None if asked is None else read_said(asked, USER)


def _take_first(replies: Any) -> str | None:
    while isinstance(replies, list):
        if not replies or _is_likelihood(replies):
            return None
        replies = replies[0]
    return read_text(replies)


def _is_likelihood(reply: Any) -> bool:
    """Say whether this is a pair of a log-likelihood and whether it is the greedy choice."""
    return isinstance(reply, list) and len(reply) == 2 and str(reply[1]) in ("True", "False")  # noqa: PLR2004


def _read_likelihoods(line: Mapping[str, Any]) -> list[float]:
    """Return the log-likelihoods of the choices, if the model was not asked for a text."""
    replies = as_list(line.get("filtered_resps"))
    found = [_log(reply[0]) for reply in replies if _is_likelihood(reply)]
    known = [each for each in found if each is not None]
    if len(known) != len(replies):
        return []
    if _UNCONDITIONAL in as_list(line.get("metrics")):  # each once more, without its question
        known = known[: len(known) // 2]
    return known if len(known) > 1 else []


def _log(value: Any) -> float | None:
    try:
        return as_number(float(value))
    except (TypeError, ValueError, OverflowError):
        return None


def _compute_confidence(likelihoods: list[float]) -> float:
    """Return the chosen one's share of the likelihood of all."""
    most = max(likelihoods)
    return 1 / sum(exp(each - most) for each in likelihoods)


register(
    LogReader(
        name="lm-eval",
        fits=has_keys("doc_id", "doc", "arguments", "resps", "filtered_resps"),
        records=_read_records,
        refuse=_refuse_results,
        in_folders=("samples_*.jsonl",),
        left_out="lines of other filters than the first were left out; --by filter shows each",
    )
)
