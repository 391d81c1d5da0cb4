"""Runs in folders: `EXPERIMENT/TIER/SUBTEST/run_NN/run_result.json`, with the judges' files.

The task is the test of the experiment, a sub-test is a configuration of its tier: the `variant`.
Tests are told apart by their experiments' folders, so that two are never taken for one. A judge's
own file, `judgment.json`, is one record too: what that judge said of the run. The `report.json` of
a sub-test states figures of all its runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Figure, LogReader, LogRecord, Record
from calipers.records.logs.parts import as_list, as_mapping, list_objects, read_text, read_whole
from calipers.records.logs.shape import find_value, name_scores, read_number
from calipers.records.nested_fields import flatten_judgment
from calipers.support.plugins import register

_TIER = re.compile(r"T\d+")
_RUN = re.compile(r"run_?(\d+)")
_PHASES = ("completed", "in_progress")  # folders between an experiment and its tiers
_STAMPED = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+)")  # the folder of an experiment
_TEST = re.compile(r"test[-_]?\d+", re.IGNORECASE)
_MODEL = re.compile(r"\*\*Model\*\*:\s*(.+)")
_RESULT_FILE, _CONFIG = "run_result.json", "config/experiment.json"
_RESULT = {"run_number", "judge_passed"}
_STATED = {  # by a sub-test's summary, and the metric of ours
    "pass_rate": "pass_rate",
    "mean_score": "score_judge",
    "median_score": "p50(score_judge)",
    "total_cost": "sum(cost_usd)",
    "std_dev": "",  # of a sample (n − 1)
    "consistency": "",
}
_OTHERWISE = {
    "std_dev": "its code divides by n − 1, T by n: the std_dev of `statistics` is T's",
    "consistency": "it stands under `tiers.consistency`, where a tier has two runs",
}
_DEEPEST = 10  # folders in each other that are searched for runs
_MOST_FOLDERS = 200_000
_NOT_ENTERED = frozenset(("workspace", "node_modules", "agent", "judge"))


def _is_result(document: Any) -> bool:
    document = as_mapping(document)
    return document.keys() >= _RESULT and bool({"token_stats", "cost_usd"} & document.keys())


@dataclass(frozen=True, slots=True)
class _RunPlace:
    """Where a run stands: the folders above it."""

    experiment: Path | None = None
    tier: str | None = None
    subtest: str | None = None
    run: int | None = None


def _read_place(path: Path) -> _RunPlace:
    """Return what the folders above a file name, those that are the nearest to it."""
    parts = path.parts[:-1]
    run = next((n for n in reversed(range(len(parts))) if _RUN.fullmatch(parts[n])), None)
    last = len(parts) - 1 if run is None else run - 1
    if run is None:
        tier = next((n for n in reversed(range(len(parts))) if _TIER.fullmatch(parts[n])), None)
    else:
        near = (n for n in (last, last - 1) if n >= 0 and _TIER.fullmatch(parts[n]))
        tier = next(near, None)
    told = None if run is None else _RUN.fullmatch(parts[run])
    above = None if not tier else Path(*parts[:tier])
    while above is not None and above.name in _PHASES:
        above = above.parent
    return _RunPlace(
        experiment=above,
        tier=None if tier is None else parts[tier],
        subtest=parts[last] if run is not None and last >= 0 and last != tier else None,
        run=None if told is None else int(told[1]),
    )


def _find_place(path: Path, found: Mapping[str, Any]) -> _RunPlace:
    """Return where a run stands, or where it says that it stood if its folders do not tell."""
    place = _read_place(path.absolute())
    if place.tier is not None:
        return place
    recorded = _read_recorded(found)
    if recorded.tier is None:
        return place
    run = place.run if place.run is not None else recorded.run
    return _RunPlace(recorded.experiment, recorded.tier, place.subtest or recorded.subtest, run)


def _read_recorded(found: Mapping[str, Any]) -> _RunPlace:
    at = read_text(found.get("workspace_path")) or read_text(found.get("logs_path"))
    return _read_place(Path(at)) if at else _RunPlace()


def _name_test(place: _RunPlace, found: Mapping[str, Any]) -> str | None:
    """Return the name of the test that an experiment is of.

    An experiment's folder tells it. One that has another name, as a copy may, is of the test that
    its own files name, unless there are experiments beside it, which must not be taken for it.
    """
    folder = place.experiment
    if folder is None:
        return None
    if (stamped := _STAMPED.fullmatch(folder.name)) is not None:
        return stamped[1]
    if _TEST.search(folder.name) or _has_siblings(folder):
        return folder.name or None
    recorded = _read_recorded(found).experiment
    text = read_text(_read_config(folder).get("experiment_id"))
    if text or recorded is None:
        return text or folder.name or None
    stamped = _STAMPED.fullmatch(recorded.name)
    return stamped[1] if stamped else recorded.name or folder.name


def _has_siblings(experiment: Path) -> bool:
    """Return True if other experiments stand beside one."""
    with suppress(OSError):
        return _look_beside(experiment, experiment.parent.stat().st_mtime_ns)
    return False


@lru_cache(maxsize=1_000)
def _look_beside(experiment: Path, _: int) -> bool:
    with suppress(OSError):
        for beside in experiment.parent.iterdir():
            if beside != experiment and beside.is_dir() and _has_tiers(beside):
                return True
    return False


def _has_tiers(folder: Path) -> bool:
    with suppress(OSError):
        for place in (folder, *(folder / phase for phase in _PHASES)):
            if place.is_dir() and any(_TIER.fullmatch(inside.name) for inside in place.iterdir()):
                return True
    return False


def _read_config(experiment: Path) -> Mapping[str, Any]:
    path = experiment / _CONFIG
    with suppress(OSError):
        return _read_config_state(path, path.stat().st_mtime_ns)
    return {}


@lru_cache(maxsize=1_000)
def _read_config_state(path: Path, _: int) -> Mapping[str, Any]:
    return as_mapping(read_whole(path))


def _find_model(run: Path, place: _RunPlace) -> str | None:
    """Return the agent's model, by its own file, or by the experiment's configuration."""
    if (told := _read_model(run / "agent")) is not None:
        return told
    config = {} if place.experiment is None else _read_config(place.experiment)
    models = [read_text(model) for model in as_list(config.get("models"))]
    return models[0] if models else None


def _read_model(folder: Path) -> str | None:
    """Return the model that the file of an agent or a judge names."""
    with suppress(OSError, UnicodeDecodeError):
        match = _MODEL.search((folder / "MODEL.md").read_text(encoding="utf-8"))
        return None if match is None else match[1].strip()
    return None


def _identify(path: Path, run: Path, found: Mapping[str, Any]) -> Record:
    place = _find_place(path, found)
    return {
        "id": _name_test(place, found),
        "model": _find_model(run, place),
        "tier": place.tier,
        "variant": place.subtest,
        "run": place.run,
        "subtest": place.subtest,
        "experiment": None if place.experiment is None else place.experiment.name or None,
    }


def _find_runs(folder: Path) -> Sequence[Path]:
    """Return the results of all runs below a folder, however deep their experiments lie."""
    runs: list[Path] = []
    left = [(folder, _DEEPEST)]
    for _ in range(_MOST_FOLDERS):
        if not left:
            break
        at, depth = left.pop()
        with suppress(OSError), os.scandir(at) as entries:
            inside = list(entries)
            if any(entry.name == _RESULT_FILE for entry in inside):
                runs.append(at / _RESULT_FILE)
                continue
            left += [
                (Path(entry.path), depth - 1)
                for entry in inside
                if depth
                and entry.is_dir(follow_symlinks=False)
                and not entry.name.startswith(".")
                and entry.name not in _NOT_ENTERED
            ]
    return sorted(runs)


def _read_runs(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    found = as_mapping(read_whole(path))
    used = as_mapping(found.get("token_stats"))
    place = _identify(path, path.parent, found)
    yield (
        {
            **place,
            "run": place["run"] if place["run"] is not None else found.get("run_number"),
            "passed": found.get("judge_passed"),
            "impl_rate": read_number(find_value(found, "impl_rate | judge_score")),
            "cost_usd": read_number(found.get("cost_usd")),
            "duration_seconds": read_number(found.get("duration_seconds")),
            "prompt_tokens": read_number(used.get("input_tokens")),
            "completion_tokens": read_number(used.get("output_tokens")),
            "cache_read_tokens": read_number(used.get("cache_read_tokens")),
            "cache_write_tokens": read_number(used.get("cache_creation_tokens")),
            "judgments": [
                judged
                for number, judge in enumerate(list_objects(found.get("judges")), start=1)
                if (judged := _read_judge(judge, path.parent, number))
            ]
            or None,
            "error": _describe_error(found),
            "agent_duration_seconds": read_number(found.get("agent_duration_seconds")),
            "judge_duration_seconds": read_number(found.get("judge_duration_seconds")),
            "grade": read_text(found.get("judge_grade")),
            **name_scores({"judge": read_number(found.get("judge_score"))}),
        },
        1.0,
    )


def _describe_error(found: Mapping[str, Any]) -> str | None:
    said = read_text(found.get("error"))
    return said or (f"exit code {found['exit_code']}" if found.get("exit_code") else None)


def _read_judge(judge: Mapping[str, Any], folder: Path, number: int) -> Record:
    """Return a judge's verdict, with the scores of the criteria that its own file has."""
    place = judge.get("judge_number", number)
    more: Mapping[str, Any] = {}
    if isinstance(place, int):
        beside = folder / "judge" / f"judge_{place:02d}" / "judgment.json"
        more = as_mapping(read_whole(beside)) if beside.is_file() else {}
    return _read_verdict(judge, more, read_text(judge.get("model")) or f"judge {place}")


def _read_verdict(judge: Mapping[str, Any], more: Mapping[str, Any], name: str | None) -> Record:
    flat = flatten_judgment(more)
    score = read_number(judge.get("score"))
    passed = judge.get("passed")
    return {
        "judge": name,
        "passed": flat.get("passed") if passed is None else passed,
        "weighted_score": read_number(flat.get("weighted_score")) if score is None else score,
        "confidence": flat.get("confidence"),
        "scores": {**_read_criteria(more, items=False), **as_mapping(flat.get("scores"))} or None,
        **{name: more[name] for name in ("criteria_scores", *_PROTOCOL) if more.get(name)},
        "reason": read_text(judge.get("reasoning") or more.get("qualitative_feedback")),
    }


_PROTOCOL = ("summary", "categories", "requirements")


def _read_criteria(judgment: Mapping[str, Any], *, items: bool) -> dict[str, float]:
    """Return the score of each criterion; with `items` also the share of its points each item got.

    What does not apply has none.
    """
    found: dict[str, float | None] = {}
    for name, criterion in as_mapping(judgment.get("criteria_scores")).items():
        found[name] = read_number(as_mapping(criterion).get("score"))
        listed = as_mapping(as_mapping(criterion).get("items")) if items else {}
        for item, marks in listed.items():
            achieved, most = (
                read_number(as_mapping(marks).get(key)) for key in ("achieved", "max")
            )
            if achieved is not None and most:
                found[f"{name}.{item}"] = achieved / most
    return {name: score for name, score in found.items() if score is not None}


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield what the report of the sub-test states about its runs, of which this is one."""
    place, subtest = _read_place(path.absolute()), path.absolute().parent.parent
    report = subtest / "report.json"
    if place.subtest is None or not report.is_file():
        return
    summary = as_mapping(as_mapping(read_whole(report)).get("summary"))
    count = read_number(summary.get("total_runs"))
    for name, ours in _STATED.items():
        if count is not None and (value := read_number(summary.get(name))) is not None:
            yield Figure(
                name=f"{place.tier}/{place.subtest}/{name}",
                value=value,
                n=int(count),
                ours=(ours,) if ours else (),
                reason=_OTHERWISE.get(name, ""),
                folder=subtest,
            )


_THEIR_GRADES = (("S", 1.0), ("A", 0.8), ("B", 0.6), ("C", 0.4), ("D", 0.2))  # of their code
_GRADES_OF_T = (("A", 0.95), ("B", 0.85), ("C", 0.75), ("D", 0.65))
_SCALE = ", ".join(f"{letter}: {least}" for letter, least in _THEIR_GRADES)


def _note_departures(paths: Sequence[Path]) -> Iterator[str]:
    """Yield where the tool's code departs from its document, on these runs."""
    yield from _note_grades(paths)
    reports = {path.absolute().parent.parent / "report.json" for path in paths}
    summaries = (
        as_mapping(as_mapping(read_whole(report)).get("summary"))
        for report in sorted(reports)
        if report.is_file()
    )
    if any((read_number(summary.get("std_dev")) or 0.0) > 0 for summary in summaries):
        yield (
            "std_dev in report.json is that of a sample (n − 1); T (Standard Deviation) divides by "
            "n, as `statistics` does here"
        )


def _note_grades(paths: Sequence[Path]) -> Iterator[str]:
    """Yield how many runs their own code grades otherwise than T does."""
    graded = otherwise = 0
    for path in paths:
        found = as_mapping(read_whole(path))
        score, letter = read_number(found.get("judge_score")), read_text(found.get("judge_grade"))
        if score is not None and letter is not None:
            graded += 1
            otherwise += letter != _find_letter(score, _GRADES_OF_T)
    if otherwise:
        yield (
            f"{otherwise:,} of {graded:,} runs have another grade in their files than T's letters "
            "(A .95, B .85, C .75, D .65) give their scores: the tool's own scale is another; "
            f"--set grade_scale='{{{_SCALE}}}' gives theirs"
        )


def _find_letter(score: float, scale: Sequence[tuple[str, float]]) -> str:
    return next((letter for letter, least in scale if score >= least), "F")


def _read_judgment(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    found = as_mapping(read_whole(path))
    flat = flatten_judgment(found)
    run = _find_run_folder(path)
    result = run / _RESULT_FILE
    name = (
        read_text(flat.get("judge_model") or found.get("model"))
        or _read_model(path.parent)
        or path.parent.name
    )
    verdict = _read_verdict(found, found, name)
    own = verdict["scores"] or {}
    scores = {"judge": verdict["weighted_score"], **own, **_read_criteria(found, items=True)}
    yield (
        {
            **_identify(path, run, as_mapping(read_whole(result) if result.is_file() else None)),
            "passed": verdict["passed"],
            "judgments": [verdict],
            **name_scores(scores),
        },
        1.0,
    )


def _find_run_folder(path: Path) -> Path:
    return next((parent for parent in path.parents if _RUN.fullmatch(parent.name)), path.parent)


def _is_judgment(document: Any) -> bool:
    document = as_mapping(document)
    if document.keys() >= {"score", "passed", "criteria_scores"}:
        return True
    parts = [name for name in _PROTOCOL if isinstance(document.get(name), dict)]
    return "summary" in parts and len(parts) > 1


register(
    LogReader(
        name="tier runs",
        fits=_is_result,
        records=_read_runs,
        stated=_list_stated,
        notes=_note_departures,
        find=_find_runs,
    )
)
register(LogReader(name="judgments of tier runs", fits=_is_judgment, records=_read_judgment))
