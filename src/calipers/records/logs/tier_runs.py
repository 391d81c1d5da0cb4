"""Runs in folders, a tier each: `TIER/SUBTEST/run_NN/run_result.json`, with the judges' files.

A judge's own file, `judgment.json`, is one record too: what that judge said of the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import as_mapping, has_keys, list_objects, read_text, read_whole
from calipers.records.logs.shape import look, name_scores, read_number
from calipers.support.registry import register

_TIER = re.compile(r"T\d+")
_RUN = re.compile(r"run_?(\d+)")
_RESULT = {"run_number", "judge_passed"}


def _is_result(document: Any) -> bool:
    found = as_mapping(document)
    return found.keys() >= _RESULT and bool({"token_stats", "cost_usd"} & found.keys())


def _read_place(path: Path) -> Record:
    """Return the tier, the subtest and the run that the folders above a file name."""
    parts = path.absolute().parts[:-1]
    tier = next((place for place, part in enumerate(parts) if _TIER.fullmatch(part)), None)
    runs = ((place, told) for place, part in enumerate(parts) if (told := _RUN.fullmatch(part)))
    run, told = next(runs, (None, None))
    subtest = parts[run - 1] if run is not None and run - 1 != tier else None
    task = parts[tier - 1] if tier else None
    return {
        "id": subtest or (task if tier is not None else None),
        "tier": None if tier is None else parts[tier],
        "subtest": subtest,
        "run": None if told is None else int(told[1]),
    }


def _read_runs(path: Path, _: Collection[str]) -> Iterator[Found]:
    found = as_mapping(read_whole(path))
    used = as_mapping(found.get("token_stats"))
    place = _read_place(path)
    yield (
        {
            **place,
            "run": place["run"] if place["run"] is not None else found.get("run_number"),
            "passed": found.get("judge_passed"),
            "impl_rate": _find_rate(found),
            "cost_usd": read_number(found.get("cost_usd")),
            "duration_seconds": read_number(found.get("duration_seconds")),
            "prompt_tokens": read_number(used.get("input_tokens")),
            "completion_tokens": read_number(used.get("output_tokens")),
            "cache_read_tokens": read_number(used.get("cache_read_tokens")),
            "cache_write_tokens": read_number(used.get("cache_creation_tokens")),
            "judgments": [
                each
                for number, judge in enumerate(list_objects(found.get("judges")), start=1)
                if (each := _read_judge(judge, path.parent, number))
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


def _find_rate(found: Mapping[str, Any]) -> float | None:
    """Return the rate of what was implemented: its own, or the judges' score."""
    rate = read_number(look(found, "impl_rate | judge_score"))
    return rate if rate is not None and 0 <= rate <= 1 else None


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
    return {
        "judge": name,
        "passed": judge.get("passed"),
        "weighted_score": read_number(judge.get("score")),
        "scores": _read_criteria(more) or None,
        "reason": read_text(judge.get("reasoning")),
    }


def _read_criteria(judgment: Mapping[str, Any]) -> dict[str, float]:
    found = as_mapping(judgment.get("criteria_scores"))
    scores = {name: read_number(as_mapping(each).get("score")) for name, each in found.items()}
    return {name: score for name, score in scores.items() if score is not None}


def _read_judgment(path: Path, _: Collection[str]) -> Iterator[Found]:
    found = as_mapping(read_whole(path))
    name = read_text(found.get("model", path.parent.name))
    yield (
        {
            **_read_place(path),
            "passed": found.get("passed"),
            "judgments": [_read_verdict(found, found, name)],
            **name_scores({"judge": read_number(found.get("score")), **_read_criteria(found)}),
        },
        1.0,
    )


register(
    LogReader(
        name="tier runs",
        fits=_is_result,
        records=_read_runs,
        in_folders=tuple(f"{'*/' * depth}run_result.json" for depth in range(5)),
    )
)
register(
    LogReader(
        name="judgments of tier runs",
        fits=has_keys("score", "passed", "criteria_scores"),
        records=_read_judgment,
    )
)
