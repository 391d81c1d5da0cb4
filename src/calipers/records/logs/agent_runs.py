"""Runs of agents that review papers: a folder each, with a trace, an evaluation, or both.

A run's folder may hold `trace.json`, `evaluation.json` (the tool's own scores), `metadata.json`,
`review.json`, and `stream.jsonl` or `tool_calls.jsonl` of a run of Claude Code: all of these are
one record. A sweep (`results.json`) is a list of evaluations, each of a composition of agents. The
stream of Claude Code is a run by itself as well. The tool's own scores lead: their means over the
runs that are read stand before ours, and what its code does otherwise than its document is named.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import fsum
from pathlib import Path
from typing import Any

from calipers.records.logs.claude_code import CLAUDE_CODE, read_session
from calipers.records.logs.log import Figure, LogReader, LogRecord, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    has_keys,
    list_objects,
    parse_json,
    read_json_lines,
    read_text,
    read_whole,
)
from calipers.records.logs.shape import find_value, name_scores, read_number
from calipers.support.errors import DataError
from calipers.support.plugins import register

_TRACE, _EVALUATION, _STREAM = "trace.json", "evaluation.json", "stream.jsonl"
_SWEEP, _CALLS = "results.json", "tool_calls.jsonl"
_MAIN = (_TRACE, _EVALUATION, _STREAM, _CALLS)  # the first that a run has stands for it
_COMPOSITE = "composite_score"
_OWN = (_COMPOSITE, "tier1_score", "tier2_score", "tier3_score")
_UNKNOWN = ("unknown", "")  # what it calls a paper that was not named
_DEEPEST, _MOST_FOLDERS = 8, 100_000
_LEAD = "lead"  # the agent of a session that no other has started

_GIVES_ON = "its code knows parts that the files lack, and gives the weight of others on"
_OURS: Mapping[str, tuple[str, str]] = {  # by its score: ours, and what its code does otherwise
    _COMPOSITE: (
        "agent_composite",
        f"{_GIVES_ON} (P 4: a missing part counts 0; --set missing=renormalize does so here)",
    ),
    "time_taken": (
        "time_score",
        "its code scores e^−t of the time that scoring took (P 1.4: 1 / (1 + ln t) of the run)",
    ),
    "task_success": (
        "task_success",
        "its code gives similarity / threshold (P 1.5: 1 from the threshold on, else 0)",
    ),
    "output_similarity": (
        "output_similarity",
        "its code's cosine has single words and at most 1,000 of them (P 1.1: with pairs of words)",
    ),
    "planning_rationality": (
        "planning_rationality",
        "its code falls back to a rule where no judge answers (P 2.3: three criteria of a judge)",
    ),
    "tool_efficiency": (
        "tool_selection_accuracy",
        "its code takes calls that succeeded (P 3.2: those that chose the optimal tool)",
    ),
    "coordination_quality": (
        "coordination_centrality",
        "its code counts .5 where nothing was said (P 3.4: no agent, no centrality)",
    ),
}
_BOUNDS = (("accept", 0.8), ("weak_accept", 0.6), ("weak_reject", 0.4), ("reject", 0.0))


def _read_beside(folder: Path, name: str) -> Mapping[str, Any]:
    path = folder / f"{name}.json"
    return as_mapping(read_whole(path) if path.is_file() else None)


def _read_run(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    yield _make_record(path.parent, path), 1.0


def _make_record(folder: Path, path: Path) -> Record:
    names = ("metadata", "review", "evaluation", "trace")
    about, review, scored, traced = (_read_beside(folder, name) for name in names)
    if path.name not in _MAIN:  # a trace or an evaluation under another name
        found = as_mapping(read_whole(path))
        traced, scored = (found, scored) if "tool_calls" in found else (traced, found)
    execution = next(
        (text for document in (traced, about) if (text := read_text(document.get("execution_id")))),
        None,
    )
    paper = read_text(about.get("paper_id"))
    return {
        "id": execution or folder.name if paper is None or paper in _UNKNOWN else paper,
        "execution_id": execution or folder.name,
        "model": read_text(
            about.get("model") or about.get("engine_type") or scored.get("engine_type")
        ),
        "variant": _name_composition(as_mapping(about.get("cli_args"))),
        "answer": read_text(find_value(review, "review.comments")),
        "recommendation_given": read_text(find_value(review, "review.recommendation")),
        "duration_seconds": read_number(find_value(traced, "performance_metrics.total_duration")),
        **_read_session(folder),
        **({"trace": _read_trace(traced)} if traced else {}),
        **_read_scores(scored),
    }


def _read_trace(traced: Mapping[str, Any]) -> Record:
    calls = [call for call in list_objects(traced.get("tool_calls")) if call.get("tool_name")]
    said = list(list_objects(traced.get("agent_interactions")))
    return {"tool_calls": calls, "agent_interactions": said}


def _read_scores(scored: Mapping[str, Any]) -> Record:
    own = {name: scored.get(name) for name in _OWN}
    scores = {**own, **as_mapping(scored.get("metric_scores"))}
    return {
        **name_scores({name: read_number(value) for name, value in scores.items()}),
        "recommendation_stated": read_text(scored.get("recommendation")),
        "evaluation_complete": scored.get("evaluation_complete"),
        "single_agent_mode": scored.get("single_agent_mode"),
    }


def _name_composition(given: Mapping[str, Any]) -> str | None:
    """Return which agents take part, by the switches `include_NAME`; None without any."""
    switches = {
        name.removeprefix("include_"): value
        for name, value in given.items()
        if name.startswith("include_") and isinstance(value, bool)
    }
    if not switches:
        return None
    return "+".join(name for name, is_in in switches.items() if is_in) or "manager only"


def _read_session(folder: Path) -> Record:
    """Return what a session of Claude Code left in a run's folder."""
    if (stream := folder / _STREAM).is_file() and stream.stat().st_size:
        return read_session(stream)
    if (calls := folder / _CALLS).is_file():
        listed = [line for line, _ in read_json_lines(calls) if line.get("tool_name")]
        return {"trace": {"tool_calls": listed, "agent_interactions": []}}
    return {}


def _read_stream(path: Path, keys: Collection[str]) -> Iterator[LogRecord]:
    if path.name == _STREAM:
        yield _make_record(path.parent, path), 1.0
    else:
        yield from CLAUDE_CODE.records(path, keys)


def _read_sweep(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    listed = list(list_objects(read_whole(path)))
    seen: Counter[str | None] = Counter()
    for place, entry in enumerate(listed, start=1):
        scored = as_mapping(entry.get("result"))
        variant = _name_composition(as_mapping(entry.get("composition")))
        seen[variant] += 1
        yield (
            {
                # It does not say which paper: those of one sweep are repetitions of one task.
                "id": read_text(entry.get("paper_id")) or path.parent.name,
                "model": read_text(scored.get("engine_type")),
                "variant": variant,
                "run": seen[variant],
                **_read_scores(scored),
            },
            place / len(listed),
        )


def _list_scores(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the evaluations that belong to a file: of its run, or those of a sweep."""
    if path.name == _SWEEP:
        for entry in list_objects(read_whole(path)):
            yield as_mapping(entry.get("result"))
    elif path.name in (_TRACE, _EVALUATION, _STREAM, _CALLS):
        yield _read_beside(path.parent, "evaluation")


def _list_means(paths: Sequence[Path]) -> Iterator[Figure]:
    """Yield the means of the tool's own scores over all runs that are read."""
    evaluations = [evaluation for path in paths for evaluation in _list_scores(path) if evaluation]
    values: dict[str, list[float]] = {}
    for evaluation in evaluations:
        own = {name: evaluation.get(name) for name in _OWN}
        for name, given in (own | dict(as_mapping(evaluation.get("metric_scores")))).items():
            if (value := read_number(given)) is not None:
                values.setdefault(name, []).append(value)
    for name, found in values.items():
        ours, reason = _OURS.get(name, ("", ""))
        yield Figure(
            name=name,
            value=fsum(found) / len(found),
            n=len(found),
            ours=(ours,) if ours else (),
            reason=reason,
            leads=True,
        )


def _note_recommendations(paths: Sequence[Path]) -> Iterator[str]:
    """Yield how many recommendations contradict the score beside them."""
    evaluations = [evaluation for path in paths for evaluation in _list_scores(path) if evaluation]
    against = total = 0
    for evaluation in evaluations:
        score = read_number(evaluation.get(_COMPOSITE))
        stated = read_text(evaluation.get("recommendation"))
        if score is not None and stated is not None:
            total += 1
            against += stated != next(
                name for name, least in _BOUNDS if score >= least or not least
            )
    if against:
        yield (
            f"{against:,} of {total:,} recommendations that the tool states are not those of its "
            "own composite_score (P 4: accept from .8, weak_accept .6, weak_reject .4)"
        )


def _is_sweep(document: Any) -> bool:
    first = as_mapping(as_list(document)[0]) if as_list(document) else {}
    return "composition" in first and _COMPOSITE in as_mapping(first.get("result"))


@dataclass(slots=True)
class _Found:
    """The files in and below a folder, and the runs that hold nothing to read."""

    runs: list[Path] = field(default_factory=list)
    sweeps: list[Path] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)
    broken: list[Path] = field(default_factory=list)


def _search(folder: Path) -> _Found:
    """Return the runs and sweeps below a folder, by what their folders hold."""
    found = _Found()
    left = [(folder, _DEEPEST)]
    for _ in range(_MOST_FOLDERS):
        if not left:
            break
        at, depth = left.pop()
        with suppress(OSError), os.scandir(at) as entries:
            inside = {entry.name: entry for entry in entries}
            there = [name for name in _MAIN if name in inside and inside[name].is_file()]
            filled = [name for name in there if inside[name].stat().st_size]
            main = next((name for name in filled if _is_of_run(at / name)), None)
            if main is not None:
                found.runs.append(at / main)
            elif filled and (at / "metadata.json").is_file():
                found.broken.append(at / filled[0])
            elif there and not filled:
                found.empty.append(at)
            if _SWEEP in inside and _fits_file(at / _SWEEP, _is_sweep):
                found.sweeps.append(at / _SWEEP)
            left += [
                (Path(entry.path), depth - 1)
                for entry in inside.values()
                if depth and entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            ]
    found.runs.sort()
    found.sweeps.sort()
    found.empty.sort()
    return found


def _is_of_run(path: Path) -> bool:
    if path.name == _STREAM:
        return _fits_file(path, CLAUDE_CODE.fits)
    if path.name == _CALLS:
        return _fits_file(path, has_keys("tool_name")) and (path.parent / "metadata.json").is_file()
    return _fits_file(path, _is_trace if path.name == _TRACE else _is_evaluation)


def _fits_file(path: Path, fits: Any) -> bool:
    with suppress(OSError, DataError):
        if path.suffix == ".jsonl":
            with path.open("rb") as file:
                return bool(fits(parse_json(file.readline(), str(path))))
        return bool(fits(read_whole(path)))
    return False


def _find_runs(folder: Path) -> Sequence[Path]:
    found = _search(folder)
    return found.runs or found.sweeps


def _note_passed_over(folder: Path) -> Iterator[str]:
    """Yield which runs and sweeps below a folder are not among the records, and why."""
    found = _search(folder)
    if found.empty:
        count = "1 run left" if len(found.empty) == 1 else f"{len(found.empty):,} runs left"
        names = _join_some(run.name for run in found.empty)
        yield f"{folder}: {count} empty files, and none of them is read: {names}"
    if found.broken:
        count = "1 run is" if len(found.broken) == 1 else f"{len(found.broken):,} runs are"
        names = _join_some(f"{path.parent.name}/{path.name}" for path in found.broken)
        yield f"{folder}: {count} not read, of which these files are damaged or of others: {names}"
    if found.runs and found.sweeps:
        sweeps = "1 sweep is" if len(found.sweeps) == 1 else f"{len(found.sweeps):,} sweeps are"
        yield (
            f"{folder}: {sweeps} not read, whose runs are among the others: "
            f"name {found.sweeps[0].parent.parent} for them"
        )


def _join_some(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _NAMED} more" if every[_NAMED:] else ""
    return f"{', '.join(every[:_NAMED])}{more}"


_NAMED = 3  # folders, in a message
_is_trace = has_keys("execution_id", "tool_calls", "agent_interactions")
_is_evaluation = has_keys(_COMPOSITE, "metric_scores", "recommendation")

register(
    LogReader(
        name="agent traces",
        fits=lambda document: _is_trace(document) or _is_evaluation(document),
        records=_read_run,
        together=_list_means,
        notes=_note_recommendations,
        find=_find_runs,
        passed_over=_note_passed_over,
        is_folder=True,
    )
)
register(
    LogReader(
        name="sweeps of agents",
        fits=_is_sweep,
        records=_read_sweep,
        together=_list_means,
        notes=_note_recommendations,
    )
)
register(replace(CLAUDE_CODE, records=_read_stream))
