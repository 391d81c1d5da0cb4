"""How well equations are found and judged, on chains that were labelled by reading them.

`labelled_equations.jsonl` has a line per chain: its file under the shared data, record, model and
hash, the places of all its signs (`=`, `≈` …), and a label for each: `r` joins a right equation
(rounding included), `w` a wrong one, `n` none. It was drawn with a fixed seed, by model, and
labelled before the program was run on it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from calipers.metrics.equations.parser import MARK, find_equations
from tests.shared_data import FOLDER, needs_shared_data

LABELLED = Path(__file__).parent / "labelled_equations.jsonl"
REASONING = FOLDER / "reasoning"
NONE = "none"

pytestmark = needs_shared_data


@pytest.fixture(scope="module")
def confusion() -> Counter[tuple[str, str]]:
    """Count the signs by label and by what the program says."""
    chains = [json.loads(line) for line in LABELLED.read_text().splitlines()]
    texts = {}
    for name in {chain["file"] for chain in chains}:
        for line in (REASONING / name).read_text().splitlines():
            record = json.loads(line)
            texts[name, record["id"], record["model"]] = record.get("cot")
    counts: Counter[tuple[str, str]] = Counter()
    for chain in chains:
        cot = texts[chain["file"], chain["id"], chain["model"]]
        assert hashlib.sha256(cot.encode()).hexdigest() == chain["cot_sha256"]
        said = said_of_signs(cot, chain["signs"])
        counts.update(
            (label, said.get(sign, NONE))
            for sign, label in zip(chain["signs"], chain["labels"], strict=True)
        )
    return counts


def said_of_signs(cot: str, signs: list[int]) -> dict[int, str]:
    """Return what the program says of the equation that each sign joins."""
    marks = [mark.span() for mark in MARK.finditer(cot)]
    said = {}
    for start, end, verdict in find_equations(cot):
        for sign in signs:
            in_mark = any(first < sign < last for first, last in marks)
            if start <= sign < end and in_mark == ((start, end) in marks):
                said[sign] = verdict.value
    return said


def test_what_is_called_wrong_is_wrong_and_equations_are_found(
    confusion: Counter[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"r": "right", "w": "wrong", "n": "none"}
    columns = ("right", "rounded", "wrong", NONE)
    equations = sum(count for (label, _), count in confusion.items() if label != "n")
    found = equations - confusion["r", NONE] - confusion["w", NONE]
    called_wrong = sum(count for (_, said), count in confusion.items() if said == "wrong")
    precision, recall = confusion["w", "wrong"] / called_wrong, found / equations
    table = ["".join(f"{name:>9}" for name in ("label", *columns))]
    for label, name in labels.items():
        cells = (name, *(confusion[label, said] for said in columns))
        table.append("".join(f"{cell:>9}" for cell in cells))
    table.append(f"precision of wrong {precision:.1%}, recall of equations {recall:.1%}")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(table) + "\n")
    assert equations >= 600
    assert precision >= 0.97
    assert recall >= 0.95
    assert not confusion["w", "right"]
    assert not confusion["n", "wrong"]
