"""Have pydantic-evals report on cases, once and twice each: `write_pydantic_evals.py FOLDER`."""

import json
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic_evals import Case, Dataset, increment_eval_metric
from pydantic_evals.evaluators import EqualsExpected, Evaluator, EvaluatorContext
from pydantic_evals.reporting import EvaluationReportAdapter

CASES = {"a": "1", "b": "2", "c": "3", "d": "4"}
ANSWERS = {"a": "1", "b": "a long text", "c": "3"}
MODEL = "openai:gpt-5-mini"


@dataclass
class Near(Evaluator):
    def evaluate(self, context: EvaluatorContext) -> dict[str, Any]:
        return {"near": 1.0 if context.output == context.expected_output else 0.25}


@dataclass
class Broken(Evaluator):
    def evaluate(self, context: EvaluatorContext) -> bool:
        if context.inputs == "c":
            raise ValueError("the judge broke")
        return True


def answer(question: str) -> str:
    increment_eval_metric("output_tokens", 7)
    return ANSWERS[question]


def main(folder: Path) -> None:
    found = {}
    for repeat in (1, 2):
        cases = [Case(name=n, inputs=n, expected_output=target) for n, target in CASES.items()]
        data = Dataset(name="sums", cases=cases, evaluators=[EqualsExpected(), Near(), Broken()])
        report = data.evaluate_sync(
            answer, progress=False, repeat=repeat, metadata={"model": MODEL}
        )
        name = f"report-{repeat}.json"
        (folder / name).write_bytes(EvaluationReportAdapter.dump_json(report, indent=repeat))
        averages = report.averages()
        assert averages is not None
        found[name] = {
            "near": averages.scores["near"],
            "tokens": averages.metrics["output_tokens"],
            "cases": len(report.cases),
            "failures": len(report.failures),
        }
    print(json.dumps({"version": version("pydantic-evals"), "model": MODEL, "reports": found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
