"""Logs that are one large JSON document: read in memory that does not grow with them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from calipers.records.readers.json_documents import parse_places, read_outline, stream_places
from calipers.support.errors import DataError
from tests.records import export_files as files
from tests.records.log_files import make_deepeval_case

MB = 1 << 20
SIZE = 200 * MB
MOST_MEMORY = 400 * MB  # of the whole process, of which the interpreter and Polars take a half
TEXT = "An observation of what a tool has printed, line after line. " * 160

# What a process had at most, since a fork may count its parent's memory as its own.
PEAK = """
import sys
from pathlib import Path
import calipers as cal
result = cal.score(sys.argv[1], metrics=["pass_rate", "tool_selection_accuracy"])
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(result.inputs[0].rows, result.inputs[0].format, int(status["VmHWM"].split()[0]) * 1024, sep="|")
"""


def _write(path: Path, start: str, elements: Iterator[Any], end: str) -> Path:
    """Write a document around elements until it has the size."""
    with path.open("w", encoding="utf-8") as file:
        file.write(start)
        for number, each in enumerate(elements):
            file.write(("," if number else "") + json.dumps(each))
            if file.tell() > SIZE:
                break
        file.write(end)
    return path


def _number() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def _deepeval(folder: Path) -> Path:
    cases = (make_deepeval_case(f"case {n}", actualOutput=TEXT) for n in _number())
    return _write(
        folder / "run.json", '{"testFile": null, "testCases": [', cases, '], "testPassed": 1}'
    )


def _swe_agent(folder: Path) -> Path:
    step: Any = files.SWE_AGENT["trajectory"]
    steps = ({**step[0], "observation": TEXT} for _ in _number())
    rest = {name: files.SWE_AGENT[name] for name in ("history", "info")}
    return _write(folder / "a.traj", '{"trajectory": [', steps, f"], {json.dumps(rest)[1:]}")


def _mini_swe_agent(folder: Path) -> Path:
    call = {"id": "1", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    said = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": TEXT}]
    info = json.dumps(files.SWE_AGENT["info"])
    messages = (said[n % 2] for n in _number())
    end = '], "trajectory_format": "mini-swe-agent-1"}'
    return _write(folder / "a.traj.json", f'{{"info": {info}, "messages": [', messages, end)


def _otlp(folder: Path) -> Path:
    spans = (
        {
            "traceId": f"{n // 4:032x}",
            "spanId": f"{n:016x}",
            "name": "execute_tool look",
            "startTimeUnixNano": str(n),
            "endTimeUnixNano": str(n + 1),
            "attributes": [
                {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
                {"key": "gen_ai.tool.name", "value": {"stringValue": "look"}},
                {"key": "output", "value": {"stringValue": TEXT}},
            ],
        }
        for n in _number()
    )
    start = '{"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": ['
    return _write(folder / "spans.json", start, spans, "]}]}]}")


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "format_"),
    [
        (_deepeval, "DeepEval"),
        (_swe_agent, "SWE-agent"),
        (_mini_swe_agent, "SWE-agent"),
        (_otlp, "OpenTelemetry"),
    ],
)
def test_a_document_of_200_mb_is_read_in_flat_memory(
    tmp_path: Path, make: Callable[[Path], Path], format_: str
) -> None:
    path = make(tmp_path)
    command = [sys.executable, "-c", PEAK, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows, found, peak = done.stdout.strip().split("|")
    assert (found, int(rows) > 0) == (format_, True)
    assert int(peak) < MOST_MEMORY, f"{int(peak) / MB:.0f} MB"


def test_values_at_places_come_one_by_one_with_all_that_is_beside(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [{"b": [1, 2], "c": 3}, 4], "d": {"e": 5}, "b": [6]} {"a": []}')
    found = [(place, value) for place, value, _ in stream_places(path, parse_places("a.[].b.[]"))]
    assert found == [
        (("a", "[]", "b", "[]"), 1),
        (("a", "[]", "b", "[]"), 2),
        (("a", "[]", "c"), 3),
        (("a", "[]"), 4),
        (("d",), {"e": 5}),
        (("b",), [6]),
    ]


def test_an_outline_has_the_first_of_each_list(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [{"b": [1, 2]}, 3], "c": [], "d": null}')
    assert read_outline(path) == {"a": [{"b": [1]}], "c": [], "d": None}


@pytest.mark.parametrize("text", ["", "{", '{"a": [1, ', '{"a" 1}', '{"a": [1 2]}'])
def test_a_document_that_is_torn_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError, match="not JSON"):
        list(stream_places(path, parse_places("a.[]")))
    with pytest.raises(DataError, match="not JSON"):
        read_outline(path)
