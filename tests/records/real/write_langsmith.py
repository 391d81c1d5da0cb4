"""Have LangSmith evaluate a function here, nothing uploaded: `write_langsmith.py FOLDER`."""

import json
import os
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

os.environ.update(LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false")

from langsmith import Client, evaluate
from langsmith.schemas import Example


def add(inputs: dict[str, str]) -> dict[str, str]:
    """Add a number to itself, wrongly where it is a multiple of three."""
    number = int(inputs["question"].split(" + ")[0])
    return {"answer": str(2 * number + (number % 3 == 0))}


def same(outputs: dict[str, Any], reference_outputs: dict[str, Any]) -> bool:
    """Say whether the answer is the expected one."""
    return bool(outputs["answer"] == reference_outputs["answer"])


def main(folder: Path) -> None:
    dataset, now = uuid4(), datetime.now(UTC)
    examples = [
        Example(
            id=uuid4(),
            dataset_id=dataset,
            inputs={"question": f"{n} + {n}"},
            outputs={"answer": str(2 * n)},
            created_at=now,
            modified_at=now,
        )
        for n in range(20)
    ]
    nowhere = Client(api_key="none", api_url="http://127.0.0.1:9")
    result = evaluate(add, data=examples, evaluators=[same], upload_results=False, client=nowhere)
    table = result.to_pandas()
    table.to_json(folder / "experiment.jsonl", orient="records", lines=True, default_handler=str)
    table.astype(str).to_csv(folder / "experiment.csv", index=False)
    mean = float(table["feedback.same"].mean())
    print(json.dumps({"version": version("langsmith"), "mean": mean}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
