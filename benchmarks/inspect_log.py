"""Write records as a log of Inspect: `INSPECT_PYTHON inspect_log.py RECORDS LOG`.

It runs in Inspect's interpreter and imports nothing of ours.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    write_eval_log,
)
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score

_CREATED = "2026-01-01T00:00:00+00:00"


def main(records: Path, log: Path) -> None:
    """All records as samples of one task."""
    samples = [_sample(json.loads(line)) for line in records.read_text("utf-8").splitlines()]
    right = sum(sample.scores["match"].value == "C" for sample in samples) / len(samples)
    scored = EvalScore(
        name="match",
        scorer="match",
        metrics={"accuracy": EvalMetric(name="accuracy", value=right)},
    )
    spec = EvalSpec(
        created=_CREATED,
        task="sums",
        dataset=EvalDataset(name="sums", samples=len(samples)),
        model="openai/tiny",
        config=EvalConfig(),
    )
    results = EvalResults(
        total_samples=len(samples), completed_samples=len(samples), scores=[scored]
    )
    write_eval_log(EvalLog(status="success", eval=spec, results=results, samples=samples), str(log))


def _sample(record: dict[str, Any]) -> Any:
    answer = record.get("answer") or ""
    said = ChatMessageAssistant(content=f"{record.get('cot') or ''}\n{answer}")
    verdict = "C" if answer == record["target"] else "I"
    return EvalSample(
        id=f"{record['id']}-{record['model']}",
        epoch=1,
        input=record["input"],
        target=record["target"],
        messages=[ChatMessageUser(content=record["input"]), said],
        output=ModelOutput.from_content("tiny", answer),
        scores={"match": Score(value=verdict, answer=answer)},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
