"""Have lm-evaluation-harness evaluate a model that only counts: `write_lm_eval.py FOLDER`."""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

GENERATED = """
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{data}"}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n"]}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1.0}}
"""
CHOSEN = """
task: choices
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{data}"}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: ["odd", "even"]
doc_to_target: "{{{{parity}}}}"
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1.0}}
"""


class Adder(LM):
    """Adds two numbers, wrongly where the first is a multiple of three."""

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        numbers = [int(each.args[0].split(" + ")[0]) for each in requests]
        return [str(2 * number + (number % 3 == 0)) for number in numbers]

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        found = []
        for each in requests:
            context, choice = each.args
            number = int(context.split(" + ")[0])
            found.append((-1.0 if (choice.strip() == "even") == (number % 4 > 0) else -2.0, False))
        return found

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        return [0.0 for _ in requests]


def main(folder: Path) -> None:
    data = folder / "data.jsonl"
    rows = ({"question": f"{n} + {n}", "answer": str(2 * n), "parity": n % 2} for n in range(20))
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    tasks = folder / "tasks"
    tasks.mkdir()
    for name, text in (("sums", GENERATED), ("choices", CHOSEN)):
        (tasks / f"{name}.yaml").write_text(text.format(data=data), encoding="utf-8")
    tracker = EvaluationTracker(output_path=str(folder / "results"))
    result = simple_evaluate(
        model=Adder(),
        tasks=["sums", "choices"],
        task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
        log_samples=True,
        evaluation_tracker=tracker,
    )
    samples = result.pop("samples")
    tracker.save_results_aggregated(results=result, samples=samples)
    for name, found in samples.items():
        tracker.save_results_samples(task_name=name, samples=found)
    numbers = {
        name: {key.partition(",")[0]: value for key, value in found.items() if "," in key}
        for name, found in result["results"].items()
    }
    print(json.dumps({"version": version("lm-eval"), **numbers}, default=str))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
