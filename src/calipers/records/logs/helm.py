"""HELM: the `scenario_state.json` of a run, with the `per_instance_stats.json` beside it.

Only unperturbed instances count, unless records are grouped by `perturbation`. If each reference
was a request of its own, the first one represents the instance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Figure, LogReader, LogRecord, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    as_truth,
    has_keys,
    list_objects,
    place_target,
    read_text,
)
from calipers.records.logs.shape import find_value, name_scores
from calipers.records.readers.json_documents import stream_list
from calipers.support.plugins import register

_DECISIVE = ("exact_match", "quasi_exact_match", "prefix_exact_match", "math_equiv")
_STATS = "per_instance_stats.json"
_SUMMARY = "stats.json"
_PERTURBATION = "perturbation"
_Key = tuple[str, str, str]


def _read_records(path: Path, keys: Collection[str]) -> Iterator[LogRecord]:
    beside: dict[str, Any] = {}
    stats = _read_stats(path.parent / _STATS)
    decisive = _find_decisive(stats)
    for element, done in stream_list(path, ("request_states",), beside):
        state, adapter = as_mapping(element), as_mapping(beside.get("adapter_spec"))
        # Not about a further reference, nor for calibration.
        is_own = not state.get("reference_index") and state.get("request_mode") != "calibration"
        counts = is_own and (_PERTURBATION in keys or _find_perturbation(state) is None)
        record = _make_record(state, adapter, path.parent.name, stats, decisive) if counts else None
        yield record, done


def _find_perturbation(state: Mapping[str, Any]) -> str | None:
    return read_text(find_value(state, "instance.perturbation.name"))


def _read_stats(path: Path) -> dict[_Key, dict[str, float]]:
    """Return the mean of each statistic by instance and trial; none without such a file."""
    stats: dict[_Key, dict[str, float]] = {}
    if not path.is_file():
        return stats
    for entry, _ in stream_list(path, (), {}):
        means = {
            str(find_value(stat, "name.name")): mean
            for stat in list_objects(as_mapping(entry).get("stats"))
            if (mean := as_number(stat.get("mean"))) is not None
        }
        key = _make_key(as_mapping(entry), "instance_id", "perturbation.name")
        stats.setdefault(key, {}).update(means)
    return stats


def _find_decisive(stats: Mapping[_Key, Mapping[str, float]]) -> str | None:
    """Return the first statistic that says right or wrong about every instance that has it."""
    for name in _DECISIVE:
        values = [means[name] for means in stats.values() if name in means]
        if values and all(as_truth(value) is not None for value in values):
            return name
    return None


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the means of the run's `stats.json`, of the instances that count here."""
    file = path.parent / _SUMMARY
    if not file.is_file():
        return
    decisive = _find_decisive(_read_stats(path.parent / _STATS))
    means = [
        (name, read_text(find_value(stat, "name.sub_split | name.split")), mean)
        for stat, _ in stream_list(file, (), {})
        if find_value(stat, "name.perturbation") is None
        and (name := read_text(find_value(stat, "name.name"))) is not None
        and (mean := as_number(as_mapping(stat).get("mean"))) is not None
    ]
    splits = Counter(name for name, _, _ in means)  # records are of all of them
    for name, split, mean in means:
        field = next(iter(name_scores({name: mean})))
        ours = ("accuracy", field) if name == decisive else (field,)
        yield Figure(
            name="/".join(filter(None, (split, name))),
            value=mean,
            ours=ours if splits[name] == 1 else (),
        )


def _make_key(entry: Mapping[str, Any], name: str, perturbation: str) -> _Key:
    trial = entry.get("train_trial_index")
    return str(find_value(entry, name)), str(trial), str(find_value(entry, perturbation))


def _make_record(
    state: Mapping[str, Any],
    adapter: Mapping[str, Any],
    run: str,
    stats: Mapping[_Key, Mapping[str, float]],
    decisive: str | None,
) -> Record:
    scores = stats.get(_make_key(state, "instance.id", "instance.perturbation.name"), {})
    correct = None if decisive is None else as_truth(scores.get(decisive))
    seconds = as_number(find_value(state, "result.request_time"))
    right = [
        read_text(find_value(reference, "output.text"))
        for reference in list_objects(find_value(state, "instance.references"))
        if "correct" in as_list(reference.get("tags"))
    ]
    return {
        "id": read_text(find_value(state, "instance.id")),
        "task": run.partition(":")[0] or None,
        "model": read_text(find_value(state, "request.model_deployment | request.model"))
        or read_text(adapter.get("model")),
        "run": as_number(state.get("train_trial_index")),
        "category": read_text(find_value(state, "instance.sub_split | instance.split")),
        _PERTURBATION: _find_perturbation(state),
        "input": read_text(find_value(state, "instance.input.text | request.prompt")),
        **place_target(next(filter(None, right), None), correct=correct, judged=bool(scores)),
        "answer": _read_answer(state),
        "correct": correct,
        "latency_ms": None if seconds is None else seconds * 1000,
        "prompt_tokens": scores.get("num_prompt_tokens"),
        "completion_tokens": scores.get("num_output_tokens") or scores.get("num_completion_tokens"),
        "finish_reason": read_text(find_value(state, "result.completions.0.finish_reason.reason")),
        "error": _describe_error(state),
        **name_scores(scores),
    }


def _read_answer(state: Mapping[str, Any]) -> str | None:
    """Return the completion; where letters stand for choices, the text of the choice."""
    if state.get("reference_index") is not None:
        return None  # what was sent: no model said it
    said = read_text(find_value(state, "result.completions.0.text"))
    choices = as_mapping(state.get("output_mapping"))
    return read_text(choices.get((said or "").strip())) or said


def _describe_error(state: Mapping[str, Any]) -> str | None:
    if find_value(state, "result.success") is not False:
        return None
    return read_text(find_value(state, "result.error")) or "the request failed"


register(
    LogReader(
        name="HELM",
        fits=has_keys("adapter_spec", "request_states"),
        records=_read_records,
        stated=_list_stated,
        left_out="requests about perturbed instances, further references or calibration"
        " were left out; --by perturbation shows the perturbed",
        in_folders=("scenario_state.json", "*/scenario_state.json"),
    )
)
