"""Write the answers of the arithmetic example as four other tools would log them.

python write_logs.py [-o logs]

The logs are made up: the tools themselves are not needed, and no model is asked.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "arithmetic"))
from answer_tasks import records

Record = dict[str, Any]


def list_answers(model: str) -> list[Record]:
    """Return one answer to each task by a solver, with whether it is right."""
    found = [each for each in records(runs=1) if each["model"] == model]
    return [{**each, "correct": each["answer"] == each["target"]} for each in found]


def write_inspect(answers: list[Record]) -> str:
    """Return a log of Inspect, as its JSON format has it."""
    samples = [
        {
            "id": each["id"],
            "epoch": 1,
            "input": each["input"],
            "target": each["target"],
            "output": {"choices": [{"message": {"role": "assistant", "content": each["cot"]}}]},
            "scores": {
                "match": {"value": "C" if each["correct"] else "I", "answer": each["answer"]}
            },
            "metadata": {"category": each["category"]},
        }
        for each in answers
    ]
    evaluated = {"task": "arithmetic", "model": f"example/{answers[0]['model']}"}
    results = {"scores": [{"name": "match", "scorer": "match"}]}
    head = {"version": 2, "status": "success", "eval": evaluated, "results": results}
    return json.dumps({**head, "samples": samples})


def write_lm_eval(answers: list[Record]) -> str:
    """Return the samples of lm-evaluation-harness, a line for each document."""
    lines = [
        {
            "doc_id": number,
            "doc": {"question": each["input"], "category": each["category"]},
            "target": each["target"],
            "arguments": {},
            "resps": [[each["cot"]]],
            "filtered_resps": [each["answer"]],
            "filter": "strict-match",
            "metrics": ["exact_match"],
            "exact_match": float(each["correct"]),
        }
        for number, each in enumerate(answers)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def write_promptfoo(*solvers: list[Record]) -> str:
    """Return the results of promptfoo, as `promptfoo eval -o output.json` writes them."""
    rows = [
        {
            "prompt": {"raw": each["input"], "label": "plain"},
            "vars": {"task": each["id"], "category": each["category"]},
            "testIdx": number,
            "provider": {"id": f"example:{each['model']}", "label": ""},
            "response": {"output": each["answer"]},
            "success": each["correct"],
            "score": int(each["correct"]),
            "namedScores": {},
            "latencyMs": 12,
            "testCase": {"assert": [{"type": "equals", "value": each["target"]}]},
        }
        for answers in solvers
        for number, each in enumerate(answers)
    ]
    return json.dumps({"evalId": "eval-example", "results": {"version": 3, "results": rows}})


def write_deepeval(answers: list[Record]) -> str:
    """Return a test run of DeepEval, as its `results_folder` holds it."""
    cases = [
        {
            "name": each["id"],
            "input": each["input"],
            "actualOutput": each["answer"],
            "expectedOutput": each["target"],
            "success": each["correct"],
            "metricsData": [
                {
                    "name": "Exact Match",
                    "threshold": 1.0,
                    "success": each["correct"],
                    "score": float(each["correct"]),
                }
            ],
            "order": number,
            "metadata": {"category": each["category"]},
        }
        for number, each in enumerate(answers)
    ]
    passed = sum(each["correct"] for each in answers)
    counts = {"testPassed": passed, "testFailed": len(answers) - passed}
    return json.dumps({"testFile": "test_arithmetic.py", "testCases": cases, **counts})


def main() -> None:
    """Read the options, write the logs."""
    parser = argparse.ArgumentParser(description="Write the example's answers as others' logs.")
    parser.add_argument("-o", "--output", type=Path, default=Path("logs"), help="folder to write")
    folder = parser.parse_args().output
    careful, hasty = list_answers("careful"), list_answers("hasty")
    texts = {
        "inspect/careful.json": write_inspect(careful),
        "inspect/hasty.json": write_inspect(hasty),
        "lm-eval/samples_arithmetic_2026-01-01T00-00-00.jsonl": write_lm_eval(careful),
        "promptfoo/output.json": write_promptfoo(careful, hasty),
        "deepeval/test_run_example.json": write_deepeval(hasty),
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
