"""Have Inspect AI evaluate a mock model: `write_inspect.py FOLDER`, by its own interpreter."""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inspect_ai import Epochs, Task, eval  # noqa: A004
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

MODEL = "mockllm/model"
SUMS = 20


def answer(messages: list[Any], *_: Any) -> ModelOutput:
    """Add two numbers, wrongly where the first is a multiple of three; the reply is a sentence."""
    first, second = (int(part) for part in messages[-1].text.split(" + "))
    right = first + second + (first % 3 == 0)
    output = ModelOutput.from_content(MODEL, f"The sum of both is\n{right}")
    output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)  # or it counts
    return output


def main(folder: Path) -> None:
    samples = [Sample(id=n, input=f"{n} + {n}", target=str(2 * n)) for n in range(SUMS)]
    numbers = {}
    for name, epochs in (("once", 1), ("twice", 2)):
        task = Task(
            name=name,
            dataset=samples,
            solver=generate(),
            scorer=match(numeric=True),
            epochs=Epochs(epochs, "mean"),
        )
        [log] = eval(
            task,
            model=get_model(MODEL, custom_outputs=answer),
            log_dir=str(folder / name),
            display="none",
        )
        metrics = log.results.scores[0].metrics
        numbers[name] = {each: metrics[each].value for each in ("accuracy", "stderr")}
    print(json.dumps({"version": version("inspect-ai"), **numbers}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
