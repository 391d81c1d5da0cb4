"""Have MLflow evaluate sums by a scorer of our own, with traces: `write_mlflow.py FOLDER`."""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", MLFLOW_ALLOW_FILE_STORE="true", DO_NOT_TRACK="1")

import mlflow
import pandas as pd
from mlflow.genai import scorer


@scorer
def exact(outputs: Any, expectations: dict[str, Any]) -> bool:
    """Say whether the answer is the expected one."""
    return bool(outputs == expectations["expected_response"])


@mlflow.trace
def add(question: str) -> str:
    """Add a number to itself, wrongly where it is a multiple of three."""
    number = int(question.split(" + ", maxsplit=1)[0])
    return str(2 * number + (number % 3 == 0))


def main(folder: Path) -> None:
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    mlflow.set_experiment("sums")
    data = [
        {
            "inputs": {"question": f"{n} + {n}"},
            "expectations": {"expected_response": str(2 * n)},
        }
        for n in range(20)
    ]
    result = mlflow.genai.evaluate(data=data, predict_fn=add, scorers=[exact])
    traces = mlflow.search_traces()
    traces.to_json(folder / "traces.jsonl", orient="records", lines=True, default_handler=str)
    found = mlflow.search_traces(return_type="list")
    (folder / "trace_files.jsonl").write_text(
        "".join(f"{json.dumps(json.loads(each.to_json()))}\n" for each in found), encoding="utf-8"
    )
    numbers = {"traces": float(result.metrics["exact/mean"])}
    table = pd.DataFrame(
        {
            "inputs": [f"{n} + {n}" for n in range(20)],
            "ground_truth": [str(2 * n) for n in range(20)],
            "predictions": [add(f"{n} + {n}") for n in range(20)],
        }
    )
    with mlflow.start_run():
        made = mlflow.models.evaluate(
            data=table,
            targets="ground_truth",
            predictions="predictions",
            extra_metrics=[
                mlflow.metrics.make_metric(
                    eval_fn=lambda predictions, targets: mlflow.metrics.MetricValue(
                        scores=[float(a == b) for a, b in zip(predictions, targets, strict=True)],
                        aggregate_results={
                            "mean": float((predictions == targets).mean()),
                        },
                    ),
                    greater_is_better=True,
                    name="same",
                )
            ],
        )
    made.tables["eval_results_table"].to_json(folder / "eval_results_table.json", orient="split")
    numbers["table"] = float(made.metrics["same/mean"])
    print(json.dumps({"version": version("mlflow"), **numbers}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
