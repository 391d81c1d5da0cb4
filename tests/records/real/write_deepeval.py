"""Have DeepEval evaluate sums by a metric of our own: `write_deepeval.py FOLDER`."""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ.update(DEEPEVAL_TELEMETRY_OPT_OUT="YES", DEEPEVAL_DISABLE_DOTENV="1", CI="1")

from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase, ToolCall


class Closeness(BaseMetric):
    """1 where the answer is the expected one, 0.25 otherwise."""

    threshold = 0.5
    async_mode = False
    evaluation_model = None
    include_reason = True

    def measure(self, case: LLMTestCase, *_: object, **__: object) -> float:
        self.score = 1.0 if case.actual_output == case.expected_output else 0.25
        self.success = self.score >= self.threshold
        self.reason = "by comparison"
        return self.score

    async def a_measure(self, case: LLMTestCase, *_: object, **__: object) -> float:
        return self.measure(case)

    def is_successful(self) -> bool:
        return bool(self.success)

    @property
    def __name__(self) -> str:
        return "Closeness"


def main(folder: Path) -> None:
    cases = [
        LLMTestCase(
            name=f"sum {n}",
            input=f"{n} + {n}",
            actual_output=str(2 * n + (n % 3 == 0)),
            expected_output=str(2 * n),
            tools_called=[ToolCall(name="add", input_parameters={"a": n})],
        )
        for n in range(20)
    ]
    result = evaluate(
        test_cases=cases,
        metrics=[Closeness()],
        hyperparameters={"model": "adder"},
        async_config=AsyncConfig(run_async=False),
        cache_config=CacheConfig(write_cache=False, use_cache=False),
        display_config=DisplayConfig(
            show_indicator=False, print_results=False, results_folder=str(folder / "run")
        ),
    )
    (folder / "dumped.json").write_text(result.model_dump_json(), encoding="utf-8")
    found = result.test_results
    scores = [each.metrics_data[0].score for each in found]
    numbers = {
        "pass_rate": sum(each.success for each in found) / len(found),
        "mean": sum(scores) / len(scores),
    }
    print(json.dumps({"version": version("deepeval"), **numbers}))


if __name__ == "__main__":
    os.chdir(sys.argv[1])  # it writes to where it is run
    main(Path(sys.argv[1]))
