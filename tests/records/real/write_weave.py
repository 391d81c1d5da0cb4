"""Have Weave evaluate a model into its SQLite server: `write_weave.py FOLDER`, by its interpreter.

The calls are written as the service gives them to its pages and clients: with references to the
examples, and with the examples in their place.
"""

import asyncio
import json
import sys
from base64 import b64decode, b64encode
from importlib.metadata import version
from pathlib import Path
from typing import Any

import weave
from weave.trace.context.weave_client_context import set_weave_client_global
from weave.trace.weave_client import WeaveClient
from weave.trace_server.external_to_internal_trace_server_adapter import (
    ExternalTraceServer,
    IdConverter,
)
from weave.trace_server.sqlite_trace_server import SqliteTraceServer
from weave.trace_server.trace_server_interface import CallsQueryReq

ENTITY, PROJECT = "me", "sums"
SUMS = 20
TRIALS = 2


class Ids(IdConverter):
    """Keeps names inside the server apart from those outside, as the service does."""

    def ext_to_int_project_id(self, project_id: str) -> str:
        return b64encode(project_id.encode()).decode()

    def int_to_ext_project_id(self, project_id: str) -> str:
        return b64decode(project_id).decode()

    ext_to_int_run_id = ext_to_int_user_id = ext_to_int_project_id
    int_to_ext_run_id = int_to_ext_user_id = int_to_ext_project_id


class Server(ExternalTraceServer):
    """A server with one user."""

    def feedback_create(self, req: Any) -> Any:
        req.wb_user_id = ENTITY
        return super().feedback_create(req)


class Adder(weave.Model):
    """Adds two numbers, wrongly where the first is a multiple of three."""

    name: str = "adder"

    @weave.op
    def predict(self, question: str) -> str:
        first, second = (int(part) for part in question.split(" + "))
        return str(first + second + (first % 3 == 0))


@weave.op
def same(expected: str, output: str) -> dict[str, bool]:
    return {"correct": expected == output}


@weave.op
def close(expected: str, output: str) -> float:
    return 1 / (1 + abs(int(expected) - int(output)))


def main(folder: Path) -> None:
    inside = SqliteTraceServer(str(folder / "weave.db"))
    inside.setup_tables()
    server = Server(inside, Ids())
    client = WeaveClient(ENTITY, PROJECT, server)
    set_weave_client_global(client)
    examples = [{"question": f"{n} + {n}", "expected": str(2 * n)} for n in range(SUMS)]
    evaluation = weave.Evaluation(
        name="sums", dataset=examples, scorers=[same, close], trials=TRIALS
    )
    found = asyncio.run(evaluation.evaluate(Adder()))
    client.flush()
    for name, expanded in (("references", None), ("examples", ["inputs.example"])):
        query = CallsQueryReq(project_id=f"{ENTITY}/{PROJECT}", expand_columns=expanded)
        calls = (f"{each.model_dump_json()}\n" for each in server.calls_query_stream(query))
        (folder / f"{name}.jsonl").write_text("".join(calls))
    numbers = {"same": found["same"]["correct"]["true_fraction"], "close": found["close"]["mean"]}
    print(json.dumps({"version": version("weave"), "trials": TRIALS, "sums": SUMS, **numbers}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
