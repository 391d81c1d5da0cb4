"""Samples of lm-evaluation-harness (`samples_TASK_TIME.jsonl`), a line per document and filter.

Only the first filter counts, unless records are grouped by `filter`: a document is one task,
however many filters extract its answer. The model's name is in the results file beside it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from math import exp
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Figure, LogReader, LogRecord, Record
from calipers.records.logs.parts import (
    USER,
    as_list,
    as_mapping,
    as_number,
    as_truth,
    find_last_said,
    has_keys,
    list_objects,
    place_target,
    read_json_lines,
    read_text,
    read_whole,
)
from calipers.support.errors import DataError
from calipers.support.plugins import register

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
_UNCONDITIONAL = "acc_mutual_info"
_NONE = "bypass"  # the metric of --predict_only
_MEAN = "mean"  # how most metrics are aggregated
_INPUTS = ("question", "query", "input", "problem", "prompt")


def _refuse_results(document: Any, path: Path) -> None:
    if has_keys("results", "lm_eval_version")(document):
        raise DataError(
            f"{path}: results of lm-eval, without its samples",
            fix="run lm-eval with --log_samples, and name the samples_….jsonl beside it",
        )


def _read_records(path: Path, keys: Collection[str]) -> Iterator[LogRecord]:
    task, time = _parse_name(path)
    model = None
    if time is not None:
        results = _read_results(path, time)
        model = read_text(
            results.get("model_name") or as_mapping(results.get("config")).get("model")
        )
    shared = {"model": model, "task": task}
    counted, decisive = _look_through(path)
    for line, done in read_json_lines(path):
        if "filter" not in keys and line.get("filter") != counted:
            yield None, done
            continue
        for record in _make_records(line, task, decisive):
            yield shared | record, done


def _parse_name(path: Path) -> tuple[str | None, str | None]:
    """Return the task and the time in the name of a file of samples."""
    named = _NAME.match(path.name)
    return (named["task"], named["time"]) if named else (None, None)


def _read_results(samples: Path, time: str) -> Mapping[str, Any]:
    """Return the results of the same time; an empty object without such a file."""
    for results in sorted(samples.parent.glob(f"*_{time}.json")):
        return as_mapping(read_whole(results))
    return {}


def _look_through(path: Path) -> tuple[Any, str | None]:
    """Return the first filter, and the first metric that decides about every document, or None."""
    state = path.stat()
    return _look_through_state(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _look_through_state(path: Path, *_: int) -> tuple[Any, str | None]:
    counted: Any = None
    is_first = True
    decides: dict[str, bool] = {}
    for line, _done in read_json_lines(path):
        counted = line.get("filter") if is_first else counted
        is_first = False
        for name, value in _read_scores(line).items():
            if _read_figure(value) is not None:
                decides[name] = decides.get(name, True) and as_truth(value) is not None
    return counted, next((name for name, is_decisive in decides.items() if is_decisive), None)


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the results of the task in the file beside, of the filter that counts here."""
    task, time = _parse_name(path)
    if task is None or time is None:
        return
    results = _read_results(path, time)
    counted, decisive = _look_through(path)
    counts = as_mapping(as_mapping(results.get("n-samples")).get(task))
    count = as_number(counts.get("effective"))
    config = as_mapping(as_mapping(results.get("configs")).get(task))
    aggregations = {
        str(metric.get("metric")): str(metric.get("aggregation", _MEAN))
        for metric in list_objects(config.get("metric_list"))
    }
    for name, value in as_mapping(as_mapping(results.get("results")).get(task)).items():
        number = as_number(value)
        metric, _, of_filter = name.partition(",")
        if number is None or not of_filter:
            continue
        is_ours = of_filter == counted and _MEAN in aggregations.get(metric, _MEAN)
        is_ours = is_ours and not metric.endswith("_stderr")
        field = f"score_{metric}"
        ours = ("accuracy", field) if metric == decisive else (field,)
        yield Figure(
            name=f"{task}/{name}",
            value=number,
            n=None if count is None else int(count),
            ours=ours if is_ours else (),
        )


def _read_scores(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics; old versions do not list them and have them last."""
    if "metrics" in line:
        names = [name for name in as_list(line["metrics"]) if isinstance(name, str)]
    else:
        names = [name for name, value in line.items() if isinstance(value, float)]
    return {name: line.get(name) for name in names if name != _NONE}


def _make_records(
    line: Mapping[str, Any], task: str | None, decisive: str | None
) -> Iterator[Record]:
    """Yield the record of a document and, where its request was repeated, one of each reply.

    The scores are of the first reply, or of all together; nobody judged the others.
    """
    first = _make_record(line, task, decisive)
    replies = _list_repeats(line)
    if len(replies) <= 1:
        yield first
        return
    yield {**first, "run": 1}
    answers = _list_answers(line, replies)
    about = {name: first[name] for name in ("id", "category", "input", "filter")}
    expected = read_text(line.get("target"))
    for run, (reply, answer) in enumerate(zip(replies, answers, strict=True), start=1):
        if run > 1:
            cot = reply if reply != answer else None
            yield {**about, "run": run, "expected": expected, "answer": answer, "cot": cot}


def _list_repeats(line: Mapping[str, Any]) -> list[str]:
    """Return the texts that the model gave to one request, if a text was asked for."""
    requests = as_list(line.get("resps"))
    replies = as_list(requests[0]) if len(requests) == 1 else []
    return replies if all(isinstance(reply, str) for reply in replies) else []


def _list_answers(line: Mapping[str, Any], replies: Sequence[str]) -> Sequence[str | None]:
    """Return the answer of each reply; None where the filter shows only that of the first."""
    filtered = as_list(line.get("filtered_resps"))
    texts = as_list(filtered[0]) if len(filtered) == 1 else []
    if len(texts) == len(replies) and all(isinstance(answer, str) for answer in texts):
        return texts
    is_plain = filtered[:1] == list(replies[:1])
    return replies if is_plain else [None] * len(replies)


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
        **{f"score_{kind}": _read_figure(value) for kind, value in scores.items()},
    }


def _read_figure(value: Any) -> bool | float | None:
    """Return a score of one document; some are lists, to be aggregated later."""
    return value if isinstance(value, bool) else as_number(value)


def _is_text_asked(line: Mapping[str, Any]) -> bool:
    """Return True if a text was asked for, not just the likelihood of the document."""
    request = as_mapping(as_mapping(line.get("arguments")).get("gen_args_0"))
    return not request or "arg_1" in request


def _read_request(arguments: Any) -> str | None:
    """Return what was asked, of the first request; old versions have a list of these."""
    first = as_mapping(arguments).get("gen_args_0")
    listed = as_list(arguments)
    asked = as_mapping(first).get("arg_0") if first else next(iter(as_list(listed[:1])), None)
    while isinstance(asked, list) and asked and not isinstance(asked[0], dict):
        asked = asked[0]
    return None if asked is None else find_last_said(asked, USER)


def _take_first(replies: Any) -> str | None:
    while isinstance(replies, list):
        if not replies or _is_likelihood(replies):
            return None
        replies = replies[0]
    return read_text(replies)


def _is_likelihood(reply: Any) -> bool:
    """Return True if this is a pair of a log-likelihood and whether it is the greedy choice."""
    return isinstance(reply, list) and len(reply) == 2 and str(reply[1]) in ("True", "False")  # noqa: PLR2004


def _read_likelihoods(line: Mapping[str, Any]) -> list[float]:
    """Return the log-likelihoods of the choices, if the model was not asked for a text."""
    replies = as_list(line.get("filtered_resps"))
    found = [_log(reply[0]) for reply in replies if _is_likelihood(reply)]
    known = [value for value in found if value is not None]
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
    return 1 / sum(exp(likelihood - most) for likelihood in likelihoods)


register(
    LogReader(
        name="lm-eval",
        fits=has_keys("doc_id", "doc", "arguments", "resps", "filtered_resps"),
        records=_read_records,
        refuse=_refuse_results,
        stated=_list_stated,
        in_folders=("samples_*.jsonl",),
        left_out="lines of other filters than the first were left out; --by filter shows each",
    )
)
