"""SWE-bench: reports of its harness (of a run, or of an instance), and predictions.

A report of a run names the instances that were resolved; one of an instance, its tests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import as_list, as_mapping, has_keys, read_text, read_whole
from calipers.records.logs.shape import Shape, name_scores
from calipers.support.registry import register

_is_run = has_keys("resolved_ids", "submitted_ids")
_is_instance = has_keys("patch_successfully_applied", "resolved")


def _fits(document: Any) -> bool:
    found = as_mapping(document)
    return bool(found) and (_is_run(found) or all(map(_is_instance, found.values())))


def _read_records(path: Path, _: Collection[str]) -> Iterator[Found]:
    report = as_mapping(read_whole(path))
    model = path.name.split(".")[0] if _is_run(report) else path.parent.parent.name or None
    made = list(_list_submitted(report) if _is_run(report) else _list_instances(report))
    for place, record in enumerate(made, start=1):
        yield {"model": model, **record}, place / len(made)


def _list_submitted(report: Mapping[str, Any]) -> Iterator[Record]:
    """Yield the submitted instances; one that could not be evaluated is not counted as failed."""
    resolved, broken, empty = (
        set(map(str, as_list(report.get(name))))
        for name in ("resolved_ids", "error_ids", "empty_patch_ids")
    )
    for name in map(str, as_list(report.get("submitted_ids"))):
        yield {
            "id": name,
            "category": name.partition("__")[0],
            "passed": name in resolved,
            "empty_patch": name in empty,
            "error": "the harness could not evaluate it" if name in broken else None,
        }


def _list_instances(report: Mapping[str, Any]) -> Iterator[Record]:
    for name, each in report.items():
        tests = as_mapping(each.get("tests_status"))
        yield {
            "id": name,
            "category": name.partition("__")[0],
            "passed": each.get("resolved") is True,
            "empty_patch": each.get("patch_exists") is False,
            "patch_applied": each.get("patch_successfully_applied"),
            **name_scores({kind: _compute_share(found) for kind, found in tests.items()}),
        }


def _compute_share(tests: Any) -> float | None:
    good, bad = (len(as_list(as_mapping(tests).get(name))) for name in ("success", "failure"))
    return good / (good + bad) if good + bad else None


register(LogReader(name="SWE-bench", fits=_fits, records=_read_records))
_SHAPE = Shape(
    name="SWE-bench predictions",
    has="instance_id model_patch model_name_or_path",
    fields={"id": "instance_id", "model": "model_name_or_path", "answer": "model_patch"},
    more=lambda row: {"category": (read_text(row.get("instance_id")) or "").partition("__")[0]},
)
register(_SHAPE.make_reader())
