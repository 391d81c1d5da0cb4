"""Have Langfuse's client run an experiment: `write_langfuse.py FOLDER`, by its own interpreter.

Its service keeps traces and cannot be installed: they are written in the types in which the client
receives them.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langfuse import Evaluation, Langfuse
from langfuse.api.commons.types.observation_v2 import ObservationV2
from langfuse.api.commons.types.observations_view import ObservationsView
from langfuse.api.commons.types.score_v1 import ScoreV1_Boolean
from langfuse.api.commons.types.trace_with_full_details import TraceWithFullDetails
from langfuse.api.commons.types.usage import Usage

SUMS = 20
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
ENVIRONMENT = "default"
CALL = {"model": "adder", "name": "call", "type": "GENERATION", "environment": ENVIRONMENT}


def add(*, item: Any, **_: Any) -> str:
    """Add two numbers, wrongly where the first is a multiple of three."""
    first, second = (int(part) for part in item["input"].split(" + "))
    return str(first + second + (first % 3 == 0))


def compare(*, output: str, expected_output: str, **_: Any) -> Evaluation:
    return Evaluation(name="same", value=output == expected_output, data_type="BOOLEAN")


def describe_call(number: int, asked: str, said: str) -> dict[str, Any]:
    """Return what all types of observations have."""
    return {
        **CALL,
        "id": f"call-{number}",
        "trace_id": f"trace-{number}",
        "start_time": BEGUN,
        "end_time": BEGUN + timedelta(seconds=1.5),
        "input": [{"role": "user", "content": asked}],
        "output": {"role": "assistant", "content": said},
        "usage_details": {"input": 10, "output": 5, "total": 15},
        "cost_details": {"input": 0.01, "output": 0.02, "total": 0.03},
        "level": "DEFAULT",
        "latency": 1.5,
    }


def main(folder: Path) -> None:
    client = Langfuse(
        public_key="none", secret_key="none", host="http://127.0.0.1:9", tracing_enabled=False
    )
    data = [{"input": f"{n} + {n}", "expected_output": str(2 * n)} for n in range(SUMS)]
    found = client.run_experiment(name="sums", data=data, task=add, evaluators=[compare])
    traces, views, rows = [], [], []
    for number, each in enumerate(found.item_results):
        asked, said = each.item["input"], each.output
        call = describe_call(number, asked, said)
        usage = Usage(input=10, output=5, total=15, unit="TOKENS")
        view = ObservationsView(
            **call, model_parameters={}, metadata={}, usage=usage, calculated_total_cost=0.03
        )
        [given] = each.evaluations
        score = ScoreV1_Boolean(
            id=f"score-{number}",
            trace_id=f"trace-{number}",
            name=given.name,
            source="API",
            timestamp=BEGUN,
            created_at=BEGUN,
            updated_at=BEGUN,
            environment=ENVIRONMENT,
            data_type="BOOLEAN",
            value=float(given.value),
            string_value=str(given.value),
        )
        trace = TraceWithFullDetails(
            id=f"trace-{number}",
            timestamp=BEGUN,
            name="sums",
            input=asked,
            output=said,
            tags=["tiny"],
            public=False,
            environment=ENVIRONMENT,
            html_path=f"/project/p/traces/trace-{number}",
            latency=1.5,
            total_cost=0.03,
            observations=[view],
            scores=[score],
        )
        traces.append(f"{trace.json()}\n")
        views.append(json.loads(view.json()))
        rows.append(json.loads(ObservationV2(**call, project_id="p", total_cost=0.03).json()))
    (folder / "traces.jsonl").write_text("".join(traces))
    for name, some in (("observations", views), ("observations_v2", rows)):
        (folder / f"{name}.json").write_text(json.dumps({"data": some, "meta": {}}))
    right = [float(each.evaluations[0].value) for each in found.item_results]
    print(json.dumps({"version": version("langfuse"), "mean": sum(right) / len(right)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
