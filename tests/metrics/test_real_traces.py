"""Real agents' traces give what P's code with networkx gives, and the figures of their sources.

The adapters take from each format what the record's trace holds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from tests.conformance import traces_reference as reference
from tests.shared_data import FOLDER, needs_shared_data

pytestmark = needs_shared_data

Trace = dict[str, Any]


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def agents_eval() -> Iterator[Trace]:
    """Their format is the record's."""
    for path in sorted((FOLDER / "traces/agents_eval_peerread_mas").glob("*/trace.json")):
        yield _json(path)


def tau_bench() -> Iterator[Trace]:
    for run in _json(FOLDER / "traces/tau_bench/gpt-4o-airline.json"):
        made = [call for message in run["traj"] for call in message.get("tool_calls") or []]
        talk = [message["role"] for message in run["traj"]]
        yield {
            "tool_calls": [
                {"tool_name": call["function"]["name"], "context": call["function"]["arguments"]}
                for call in made
            ],
            "agent_interactions": _said_in_turn(talk),
            "agent_tasks": Counter(talk),
        }


def who_and_when() -> Iterator[Trace]:
    for path in sorted((FOLDER / "traces/who_and_when_multiagent").glob("*/*.json")):
        talk = [turn.get("name") or turn["role"] for turn in _json(path)["history"]]
        yield {"agent_interactions": _said_in_turn(talk), "agent_tasks": Counter(talk)}


def swe_agent() -> Iterator[Trace]:
    for path in sorted((FOLDER / "traces/swe_agent").glob("*.traj")):
        actions = [step["action"] for step in _json(path)["trajectory"]]
        yield {
            "tool_calls": [
                {"tool_name": (action.split() or [""])[0], "context": action} for action in actions
            ]
        }


def trail() -> Iterator[Trace]:
    for path in sorted((FOLDER / "traces/trail_openinference").glob("*/**/*.json")):
        found = _json(path)
        if "spans" in found:
            spans = list(_spans(found["spans"]))
            yield {"tool_calls": [{"tool_name": span["span_name"]} for span in spans]}


def _spans(spans: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for span in spans:
        yield span
        yield from _spans(span.get("child_spans") or [])


def _said_in_turn(talk: list[str]) -> list[dict[str, str]]:
    return [{"from": a, "to": b} for a, b in pairwise(talk)]


SOURCES = [agents_eval, tau_bench, who_and_when, swe_agent, trail]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_every_row_agrees_with_networkx(source: Any, tmp_path: Path) -> None:
    traces = list(source())
    assert traces
    path = tmp_path / "runs.jsonl"
    path.write_text(
        "".join(json.dumps({"id": str(n), "trace": t}) + "\n" for n, t in enumerate(traces)),
        encoding="utf-8",
    )
    cal.score(path, profile="agents", per_sample=tmp_path / "samples.parquet")
    samples = pl.read_parquet(tmp_path / "samples.parquet")
    for name in (
        "path_convergence",
        "communication_overhead",
        "coordination_centrality",
        "task_distribution_balance",
    ):
        for trace, found in zip(traces, samples[name], strict=True):
            expected = getattr(reference, name)(trace)
            same = None if expected is None else pytest.approx(expected, rel=1e-12, abs=1e-12)
            assert found == same, (name, trace)


def test_tau_bench_calls_are_those_its_table_counts() -> None:
    table = pl.read_ndjson(FOLDER / "agent_runs/tau_airline_gpt4o_runs.jsonl")
    assert [len(trace["tool_calls"]) for trace in tau_bench()] == table["n_tool_calls"].to_list()
