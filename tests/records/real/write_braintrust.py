"""Have Braintrust evaluate a function here, nothing sent: `write_braintrust.py FOLDER`.

What its pages export has more columns; these are the ones that the tool itself knows of.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

from braintrust import Eval

SHARED = ("input", "output", "expected", "scores", "metadata", "tags", "error", "origin")


def add(question: str) -> str:
    """Add a number to itself, wrongly where it is a multiple of three."""
    number = int(question.split(" + ", maxsplit=1)[0])
    return str(2 * number + (number % 3 == 0))


def same(output: str, expected: str, **_: object) -> float:
    """Say whether the answer is the expected one."""
    return float(output == expected)


def main(folder: Path) -> None:
    data = [
        {"input": f"{n} + {n}", "expected": str(2 * n), "metadata": {"model": "adder"}}
        for n in range(20)
    ]
    result = Eval("sums", data=data, task=add, scores=[same], no_send_logs=True)
    rows = ({name: getattr(each, name) for name in SHARED} for each in result.results)
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "experiment.jsonl").write_text(lines, encoding="utf-8")
    mean = result.summary.scores["same"].score
    print(json.dumps({"version": version("braintrust"), "mean": mean}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
