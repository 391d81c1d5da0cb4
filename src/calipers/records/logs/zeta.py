"""Experiments of Zeta Reason: its JSON, the answers of its service, and its CSV export.

An experiment holds a result for each model: its configuration, its own metrics, and what became of
each task. A folder of experiments has an index beside them, which holds no records. A configuration
may hold a key: nothing of it but the settings below is read, and a text that contains the key is
masked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Figure, LogReader, LogRecord, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_truth,
    format_text,
    list_objects,
    read_text,
)
from calipers.records.logs.shape import Row, read_number
from calipers.records.readers.bytestream import UNREADABLE
from calipers.records.readers.csv_file import Csv
from calipers.records.readers.joins import iterate_rows
from calipers.records.readers.json_documents import JsonText, open_text
from calipers.records.readers.sniff import read_head
from calipers.support.errors import DataError
from calipers.support.plugins import register

_RESULTS = ("results", "result")  # of several models, and of one
_CONFIGURATION, _METRICS, _TASKS = "model_configuration", "metrics", "task_results"
_ABOUT, _OUTPUT = "metadata", "model_output"
_INDEX = frozenset(("model_ids", "tasks_evaluated", "accuracy_range"))
_DEFAULTS = {"temperature": 0.7, "max_tokens": 1000, "use_cot": True, "shots": 1}
_SECRET = "api_key"  # noqa: S105 (its name, not one)
_SHORTEST_SECRET = 4  # characters; to mask less would mask words
_BINS = 10
_EDGES = frozenset(place / _BINS for place in range(1, _BINS))
_MASK = "[key]"

_OURS = {  # the metrics of ours, by its name of each
    **{
        name: name
        for name in (
            *("accuracy", "brier", "ece", "sce", "usr", "cot_tokens_mean", "cot_chars_mean"),
            *("step_count_mean", "ra_ratio_mean", "self_correction_rate", "prompt_tokens_mean"),
            *("completion_tokens_mean", "total_tokens_mean", "latency_mean_ms", "latency_p95_ms"),
        )
    },
    "brier_score": "brier",
    "expected_calibration_error": "ece",
    "self_consistency_entropy": "sce",
    "unsupported_step_rate": "usr",
}
_OF_ALL = ("accuracy", "usr", "sce")  # that are of every task
_OF_CHAINS = (
    *("cot_tokens_mean", "cot_chars_mean", "step_count_mean", "ra_ratio_mean"),
    "self_correction_rate",
)


@dataclass(slots=True)
class _Result:
    """What a file says of one model, but for its tasks."""

    configuration: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)  # of what explains differences
    variant: str | None = None
    run: int | None = None

    @property
    def model(self) -> str | None:
        return read_text(self.configuration.get("model_id"))

    def count(self, task: Mapping[str, Any]) -> None:
        """Count what its code treats otherwise than the document says."""
        record = _read_task(task)
        prompt, completion = record["prompt_tokens"], record["completion_tokens"]
        total = read_number(_find(task, "total_tokens"))
        parts = None if prompt is None or completion is None else prompt + completion
        chain, answer = record["cot"], record["answer"]
        self.counts["tasks"] += 1
        self.counts["edges"] += record["prob_correct"] in _EDGES
        self.counts["blank"] += chain is not None and not chain.strip()
        self.counts["totals"] += total is not None and total != parts
        self.counts["answers"] += answer is not None


@dataclass(slots=True)
class _Experiment:
    about: Mapping[str, Any]
    results: list[_Result]
    secrets: frozenset[str]


def _walk(text: JsonText, at: Counter[str]) -> Iterator[tuple[int | None, str, Any]]:
    """Yield the parts of an object: the number of the result that has it, its name and its value.

    Each task has the name of the list that it is in.
    """
    number: int | None = None
    for name in text.walk_members():
        start = text.peek()
        if name in _RESULTS and start == "[":
            for _ in text.walk_elements():
                if text.peek() == "{":
                    yield from _walk(text, at)
                else:
                    text.take()
        elif name == _RESULTS[1] and start == "{":
            yield from _walk(text, at)
        else:
            if number is None and name in (_CONFIGURATION, _METRICS, _TASKS):
                number = at["results"]
                at["results"] += 1
            if name == _TASKS and start == "[":
                for _ in text.walk_elements():
                    yield number, _TASKS, text.take_value()
            else:
                yield number, name, text.take_value(large=True)


def _walk_file(path: Path) -> Iterator[tuple[int | None, str, Any, float]]:
    with open_text(path) as (text, opened):
        at: Counter[str] = Counter()
        while text.peek():
            for number, name, value in _walk(text, at):
                yield number, name, value, opened.share


def _read_experiment(path: Path) -> _Experiment:
    """Return what a file says of its models, without their tasks."""
    state = path.stat()
    return _read_state(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _read_state(path: Path, *_: int) -> _Experiment:
    about: Mapping[str, Any] = {}
    results: dict[int, _Result] = {}
    for number, name, value, _done in _walk_file(path):
        if number is None:
            about = as_mapping(value) if name == _ABOUT else about
            continue
        result = results.setdefault(number, _Result())
        if name == _CONFIGURATION:
            result.configuration = as_mapping(value)
        elif name == _METRICS:
            result.metrics = as_mapping(value)
        elif name == _TASKS:
            result.count(as_mapping(value))
    found = [results.get(number, _Result()) for number in range(max(results, default=-1) + 1)]
    _tell_apart(found)
    secrets = (str(result.configuration.get(_SECRET) or "") for result in found)
    return _Experiment(about, found, frozenset(s for s in secrets if len(s) >= _SHORTEST_SECRET))


def _tell_apart(results: Sequence[_Result]) -> None:
    """Name the configurations that are not the tool's own, and number those that are alike."""
    seen: Counter[tuple[str | None, str | None]] = Counter()
    providers: dict[str | None, set[Any]] = {}
    for result in results:
        provider = result.configuration.get("provider")
        providers.setdefault(result.model, set()).add(format_text(provider))
    for result in results:
        shown = [
            f"{name}={format_text(value)}"
            for name, usual in _DEFAULTS.items()
            if (value := result.configuration.get(name)) is not None and value != usual
        ]
        if len(providers[result.model]) > 1:
            shown.append(f"provider={format_text(result.configuration.get('provider'))}")
        result.variant = " ".join(shown) or None
        seen[result.model, result.variant] += 1
        result.run = seen[result.model, result.variant]
    for result in results:
        if seen[result.model, result.variant] == 1:
            result.run = None


def _find(task: Mapping[str, Any], name: str) -> Any:
    """Return a value of a task, or else of its output."""
    value = task.get(name)
    return as_mapping(task.get(_OUTPUT)).get(name) if value is None else value


def _read_task(task: Mapping[str, Any]) -> Record:
    output = as_mapping(task.get(_OUTPUT))
    sure = task.get("prob_correct")
    return {
        "input": read_text(task.get("input")),
        "target": format_text(task.get("target")),
        "answer": format_text(output.get("answer")),
        "cot": read_text(output.get("cot_text")),
        "correct": as_truth(task.get("correct")),
        "prob_correct": read_number(output.get("confidence") if sure is None else sure),
        **{
            name: read_number(_find(task, name))
            for name in ("prompt_tokens", "completion_tokens", "latency_ms")
        },
    }


def _read_records(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    experiment = _read_experiment(path)
    dataset = read_text(experiment.about.get("dataset_name"))
    shared = {
        "dataset": dataset,
        "experiment": read_text(experiment.about.get("name")),
        "tags": [tag for tag in as_list(experiment.about.get("tags")) if isinstance(tag, str)]
        or None,
    }
    for number, name, value, done in _walk_file(path):
        if name != _TASKS or number is None:
            continue
        task, result = as_mapping(value), experiment.results[number]
        task_id = format_text(task.get("task_id"))
        record = {
            # Tasks of two data sets may have the same number, and are not the same task.
            "id": f"{dataset}/{task_id}" if dataset and task_id else task_id,
            "task_id": task_id,
            "model": result.model,
            "variant": result.variant,
            "run": result.run,
            "provider": read_text(result.configuration.get("provider")),
            **shared,
            **_read_task(task),
        }
        yield _mask(record, experiment.secrets), done


def _mask(record: Record, secrets: Collection[str]) -> Record:
    """Return the record with no text that contains a key."""
    return {name: _mask_value(value, secrets) for name, value in record.items()}


def _mask_value(value: Any, secrets: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_mask_value(part, secrets) for part in value]
    for secret in secrets if isinstance(value, str) else ():
        value = value.replace(secret, _MASK)
    return value


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the metrics of each model, and what may make ours differ."""
    results = _read_experiment(path).results
    has_variants = any(result.variant for result in results)
    has_runs = any(result.run for result in results)
    for result in results:
        shown = [result.model, result.variant, None if result.run is None else f"run {result.run}"]
        label = ", ".join(filter(None, shown)) or "model"
        by: list[tuple[str, Any]] = [("model", result.model)] if result.model else []
        by += [("variant", result.variant)] if has_variants else []
        by += [("run", result.run)] if has_runs else []
        for name, given in result.metrics.items():
            value, ours = read_number(given), _OURS.get(name)
            if value is None:
                continue
            yield Figure(
                name=f"{label}/{name}",
                value=value,
                n=result.counts["tasks"] if name in _OF_ALL else None,
                ours=() if ours is None else (ours,),
                reason=_explain(ours, result.counts),
                setting=("normalize", "text") if ours == "sce" else None,
                by=tuple(by),
            )


def _explain(ours: str | None, counts: Counter[str]) -> str:
    """Return why ours may differ: where its code departs from its document on these very tasks."""
    if ours == "ece" and (found := counts["edges"]):
        return (
            f"{found:,} of its confidences stand on an edge of a bin: its code puts them into the "
            "bin above, Calipers into the bin below, as published tables do (Z 3.2 leaves it open)"
        )
    if ours == "sce":
        return "its code compares answers as texts, Calipers numbers by their value (Z 1 has both)"
    if ours in _OF_CHAINS and (found := counts["blank"]):
        return (
            f"its code leaves out {found:,} chains of thought that are blank; Z 5 counts each that "
            "is not null"
        )
    if ours == "total_tokens_mean" and counts["totals"]:
        return f"{counts['totals']:,} of its totals are not prompt + completion tokens (Z 6.1)"
    return ""


def _fits(document: Any) -> bool:
    document = as_mapping(document)
    several = as_list(document.get(_RESULTS[0]))
    inside = (document, document.get(_RESULTS[1]), *several[:1])
    is_empty = not several and as_mapping(document.get(_ABOUT)).keys() >= _INDEX
    return is_empty or any(_is_result(as_mapping(part)) for part in inside)


def _is_result(found: Mapping[str, Any]) -> bool:
    return _CONFIGURATION in found and (_METRICS in found or _TASKS in found)


def _refuse_plain(document: Any, path: Path) -> None:
    """Raise DataError for a file that holds a key, which plain records would show."""
    document = as_mapping(document)
    inside = (
        document,
        as_mapping(document.get(_RESULTS[1])),
        *list_objects(document.get(_RESULTS[0])),
    )
    if any(as_mapping(part.get(_CONFIGURATION)).get(_SECRET) for part in inside):
        raise DataError(
            f"{path}: an experiment of Zeta Reason holds a key, which plain records would show",
            fix="leave --source records out: the log is read without the key",
        )


def _fits_index(document: Any) -> bool:
    first = document[0] if isinstance(document, list) and document else document
    return as_mapping(first).keys() >= _INDEX


def _find_experiments(folder: Path) -> Sequence[Path]:
    """Return the experiments in a folder, by what is in them; the index is none."""
    for pattern in ("*.json", "*/*.json"):
        if experiments := [path for path in sorted(folder.glob(pattern)) if _is_experiment(path)]:
            return experiments
    return ()


def _is_experiment(path: Path) -> bool:
    with suppress(OSError, DataError, *UNREADABLE):
        head = read_head(path)
        return not head.is_array and _fits(head.first)
    return False


_COLUMNS = frozenset(("Model", "Task ID", "Model Answer", "Correct", "CoT Tokens"))
_NUMBERS = {
    "prob_correct": "Confidence",
    "latency_ms": "Latency (ms)",
    "prompt_tokens": "Prompt Tokens",
    "completion_tokens": "Completion Tokens",
    "cot_tokens": "CoT Tokens",  # whose text is not in the table
    "cot_chars": "CoT Chars",
    "step_count": "Step Count",
}


def _read_table(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    for row, done in iterate_rows(Csv(path)):
        yield _read_row(row), done


def _read_row(row: Row) -> Record:
    return {
        "id": format_text(row.get("Task ID")),
        "model": format_text(row.get("Model")),
        "input": format_text(row.get("Input")),
        "target": format_text(row.get("Target")) or "",
        "answer": format_text(row.get("Model Answer")) or "",  # its answers are never null
        "correct": as_truth(row.get("Correct")),
        **{name: read_number(row.get(column)) for name, column in _NUMBERS.items()},
    }


register(
    LogReader(
        name="Zeta Reason",
        fits=_fits,
        records=_read_records,
        stated=_list_stated,
        find=_find_experiments,
        refuse_plain=_refuse_plain,
    )
)
register(
    LogReader(
        name="Zeta Reason CSV",
        fits=lambda _: False,
        records=_read_table,
        tables=lambda columns: set(columns) >= _COLUMNS,
    )
)
register(
    LogReader(
        name="the index of Zeta Reason",
        fits=_fits_index,
        records=lambda *_: iter([(None, 1.0)]),
        left_out="index of experiments was left out: it holds no records; name the experiments "
        "beside it, or their folder",
    )
)
