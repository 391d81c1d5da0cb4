"""Records as a log of Inspect, packed as Inspect packs it, without Inspect.

A sample is what `inspect eval` keeps of one call of a model: messages, output, usage, and events.
`python -m benchmarks.eval_log KIND RECORDS LOG` writes one; a `brief` log is in deflate, without
events, a `whole` one in zstd.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from string import ascii_letters
from typing import Any

from pydantic_core import to_json

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile

MODEL = "openai/tiny"
TASK = "sums"
SCORER = "match"
_TIME = "2026-01-01T00:00:00.000000+00:00"
_LEVEL = 5  # of deflate, as Inspect had it before zstd
Object = dict[str, Any]


def write_log(records: Path, path: Path, *, is_brief: bool) -> None:
    """Write records as samples of one task."""
    random = Random(path.stem)
    right = count = 0
    unfinished = path.with_name(f"{path.name}.unfinished")
    packing = (zipfile.ZIP_DEFLATED, _LEVEL) if is_brief else (zipfile.ZIP_ZSTANDARD, None)
    with (
        records.open("rb") as lines,
        zipfile.ZipFile(unfinished, "w", packing[0], compresslevel=packing[1]) as log,
    ):
        log.writestr("_journal/start.json", to_json({"version": 2, "eval": _describe_task()}))
        for line in lines:
            record = json.loads(line)
            sample = make_sample(record, random)
            if is_brief:
                sample |= {"events": [], "events_data": None}
            log.writestr(f"samples/{sample['id']}_epoch_1.json", to_json(sample))
            right += sample["scores"][SCORER]["value"] == "C"
            count += 1
        log.writestr("header.json", to_json(_make_header(right, count)))
    unfinished.rename(path)


def open_log(path: Path) -> zipfile.ZipFile:
    """Open a log with Python's own reader, its backport where that knows no zstd."""
    return zipfile.ZipFile(path)


def make_sample(record: Object, random: Random) -> Object:
    """Return the sample of a record."""
    answer = record.get("answer") or ""
    said = f"{record.get('cot') or ''}\n{answer}"
    asked = _message(random, "user", "input", record["input"])
    reply = _message(random, "assistant", "generate", said) | {"model": MODEL}
    seconds = record["latency_ms"] / 1000
    sent, got = record["prompt_tokens"], record["completion_tokens"]
    used = {"input_tokens": sent, "output_tokens": got, "total_tokens": sent + got}
    output = {
        "model": MODEL,
        "choices": [{"message": reply, "stop_reason": "stop"}],
        "completion": said,
        "usage": used,
        "time": seconds,
    }
    verdict = "C" if answer == record["target"] else "I"
    sample = {
        "id": f"{record['id']}-{record['model']}",
        "epoch": 1,
        "input": record["input"],
        "target": record["target"],
        "messages": [asked, reply],
        "output": output,
        "scores": {SCORER: {"value": verdict, "answer": answer, "explanation": said}},
        "metadata": {"category": f"part {len(said) % 7}"},
        "store": {},
    }
    return sample | {
        "events": list(_list_events(sample, random)),
        "model_usage": {MODEL: used},
        "role_usage": {},
        "started_at": _TIME,
        "completed_at": _TIME,
        "total_time": seconds + 0.02,
        "working_time": seconds,
        "uuid": _name(random),
        "error_retries": [],
        "attachments": {},
        "events_data": {"messages": [asked], "calls": [asked]},
    }


def _list_events(sample: Object, random: Random) -> Iterator[Object]:
    """Yield what happened: a solver that calls the model once, and a scorer."""
    init, solvers, solver, scorers, scorer = (_name(random) for _ in range(5))
    asked, reply = sample["messages"]
    output = sample["output"]
    begun = {
        "messages": [asked],
        "tools": [],
        "store": {},
        "output": {"model": MODEL, "choices": [], "completion": ""},
        "completed": False,
    }
    called = {
        "model": MODEL,
        "input": [],
        "input_refs": [[0, 1]],
        "tools": [],
        "tool_choice": "none",
        "config": {},
        "output": output,
        "call": {"request": {"model": "tiny"}, "response": {"content": reply["content"]}},
        "working_time": output["time"],
    }
    changes = {
        "/messages/1": reply,
        "/output/usage": output["usage"],
        "/output/choices/0": output["choices"][0],
        "/output/completion": output["completion"],
    }
    found: list[tuple[str, str, Object]] = [
        (init, "span_begin", {"id": init, "type": "init", "name": "init"}),
        (init, "sample_init", {"sample": _take(sample, "input", "target", "id"), "state": begun}),
        (init, "span_end", {"id": init}),
        (solvers, "span_begin", {"id": solvers, "type": "solvers", "name": "solvers"}),
        (solver, "span_begin", {"id": solver, "parent_id": solvers, "type": "solver"}),
        (solver, "model", called),
        (
            solver,
            "state",
            {"changes": [{"op": "add", "path": at, "value": each} for at, each in changes.items()]},
        ),
        (solver, "span_end", {"id": solver}),
        (solvers, "span_end", {"id": solvers}),
        (scorers, "span_begin", {"id": scorers, "type": "scorers", "name": "scorers"}),
        (scorer, "span_begin", {"id": scorer, "parent_id": scorers, "type": "scorer"}),
        (scorer, "score", {"score": sample["scores"][SCORER], "target": sample["target"]}),
        (scorer, "span_end", {"id": scorer}),
        (scorers, "span_end", {"id": scorers}),
    ]
    for span, kind, about in found:
        yield {
            "uuid": _name(random),
            "span_id": span,
            "timestamp": _TIME,
            "working_start": random.random(),
            "event": kind,
        } | about


def _message(random: Random, role: str, source: str, content: str) -> Object:
    return {"id": _name(random), "content": content, "source": source, "role": role}


def _name(random: Random) -> str:
    return "".join(random.choices(ascii_letters, k=22))


def _take(given: Object, *names: str) -> Object:
    return {name: given[name] for name in names}


def _describe_task() -> Object:
    return {"created": _TIME, "task": TASK, "model": MODEL, "dataset": {}, "config": {}}


def _make_header(right: int, count: int) -> Object:
    accuracy = {"name": "accuracy", "value": right / count}
    scored = {"name": SCORER, "scorer": SCORER, "metrics": {"accuracy": accuracy}}
    results = {"total_samples": count, "completed_samples": count, "scores": [scored]}
    return {"version": 2, "status": "success", "eval": _describe_task(), "results": results}


if __name__ == "__main__":
    write_log(Path(sys.argv[2]), Path(sys.argv[3]), is_brief=sys.argv[1] == "brief")
