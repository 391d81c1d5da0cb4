"""Write runs of six systems, runs in three tiers, and the marks of three judges.

python write_runs.py [-o runs]

All of it is made up, by a seeded generator: no model is asked.
"""

import argparse
import csv
import json
import math
import random
from pathlib import Path
from typing import Any

Record = dict[str, Any]
SKILLS = {"birch": 2.0, "cedar": 1.7, "atlas": 1.5, "dogwood": 0.7, "elm": 0.4, "fir": -0.6}
TIERS = {"T0": (-0.5, 0.02), "T1": (0.8, 0.05), "T2": (1.2, 0.11)}  # skill, and cost in USD
SLIPS = (-10, -1, 1, 10)  # how far wrong answers are off
LARGE = 100  # sums from here on are of the category "large"
JUDGES = {"strict": -0.6, "even": 0.0, "kind": 0.5}


def list_answers(tasks: int = 120, runs: int = 2) -> list[Record]:
    """Return the answers of six systems to the same tasks; fir leaves some of its answers out."""
    rng = random.Random(1)
    asked = [(rng.randint(2, 90), rng.randint(2, 90), rng.gauss(0, 1.5)) for _ in range(tasks)]
    asked[-1] = asked[0]  # one task is there twice
    found: list[Record] = []
    for model, skill in SKILLS.items():
        for number, (a, b, difficulty) in enumerate(asked):
            for run in range(1, runs + 1):
                slip = 0 if _succeeds(rng, skill - difficulty) else rng.choice(SLIPS)
                found.append(
                    {
                        "id": f"sum-{number:03}",
                        "model": model,
                        "run": run,
                        "category": "small" if a + b < LARGE else "large",
                        "input": f"What is {a} + {b}?",
                        "target": str(a + b),
                        "answer": None
                        if model == "fir" and slip == SLIPS[-1]
                        else str(a + b + slip),
                    }
                )
    return found


def list_tier_runs(tasks: int = 12, runs: int = 6) -> list[Record]:
    """Return runs of one agent in three tiers; a dearer tier passes more often."""
    rng = random.Random(2)
    difficulties = [rng.gauss(0, 1.5) for _ in range(tasks)]
    found: list[Record] = []
    for tier, (skill, cost) in TIERS.items():
        for number, difficulty in enumerate(difficulties):
            for run in range(1, runs + 1):
                passed = _succeeds(rng, skill - difficulty)
                found.append(
                    {
                        "id": f"ticket-{number:02}",
                        "tier": tier,
                        "model": "my-model",
                        "run": run,
                        "passed": passed,
                        "impl_rate": 1.0 if passed else round(rng.uniform(0.2, 0.9), 2),
                        "cost_usd": round(cost * rng.uniform(0.7, 1.6), 4),
                        "duration_seconds": round(60 * rng.uniform(0.5, 2.0), 1),
                    }
                )
    return found


def list_marks(things: int = 40) -> list[Record]:
    """Return a row for each mark, from 1 to 5, that one of three judges gave."""
    rng = random.Random(3)
    worth = [rng.uniform(1, 5) for _ in range(things)]
    return [
        {
            "task": f"reply-{number:02}",
            "judge": judge,
            "mark": min(5, max(1, round(each + bias + rng.gauss(0, 0.6)))),
        }
        for number, each in enumerate(worth)
        for judge, bias in JUDGES.items()
    ]


def _succeeds(rng: random.Random, advantage: float) -> bool:
    return rng.random() < 1 / (1 + math.exp(-advantage))


def main() -> None:
    """Read the options, write the files."""
    parser = argparse.ArgumentParser(description="Write runs of systems, of tiers, and marks.")
    parser.add_argument("-o", "--output", type=Path, default=Path("runs"), help="folder to write")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in (("systems", list_answers()), ("tiers", list_tier_runs())):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    with (folder / "marks.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ("task", "judge", "mark"))
        writer.writeheader()
        writer.writerows(list_marks())
    print(f"{folder}: systems.jsonl, tiers.jsonl, marks.csv")


if __name__ == "__main__":
    main()
