"""Agents that review papers: a folder per run with `trace.json`, and what it reviewed beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from calipers.records.logs.log import Found, LogReader
from calipers.records.logs.parts import as_mapping, has_keys, list_objects, read_text, read_whole
from calipers.records.logs.shape import look, name_scores, read_number
from calipers.support.registry import register

_SCORES = ("composite_score", "tier1_score", "tier2_score", "tier3_score")


def _read_records(path: Path, _: Collection[str]) -> Iterator[Found]:
    found = as_mapping(read_whole(path))
    files = (path.with_name(f"{name}.json") for name in ("metadata", "review", "evaluation"))
    about, review, scored = (
        as_mapping(read_whole(each) if each.is_file() else None) for each in files
    )
    calls = [each for each in list_objects(found.get("tool_calls")) if each.get("tool_name")]
    said = list(list_objects(found.get("agent_interactions")))
    own = {name: scored.get(name) for name in _SCORES}
    scores = {**own, **as_mapping(scored.get("metric_scores"))}
    yield (
        {
            "id": read_text(about.get("paper_id")) or read_text(found.get("execution_id")),
            "execution_id": read_text(found.get("execution_id")),
            "model": read_text(about.get("model") or about.get("engine_type")),
            "answer": read_text(look(review, "review.comments")),
            "recommendation_given": read_text(look(review, "review.recommendation")),
            "duration_seconds": read_number(look(found, "performance_metrics.total_duration")),
            "trace": {"tool_calls": calls, "agent_interactions": said},
            **name_scores({name: read_number(value) for name, value in scores.items()}),
        },
        1.0,
    )


register(
    LogReader(
        name="agent traces",
        fits=has_keys("execution_id", "tool_calls", "agent_interactions"),
        records=_read_records,
        in_folders=("trace.json", "*/trace.json"),
    )
)
