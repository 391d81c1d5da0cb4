"""Estimate of what judging takes: calls still to be made, their tokens and dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from calipers.judges.journal import JudgeJournal, Place
from calipers.judges.judging import Work, check_places, has_answer, locate_journal
from calipers.judges.models import Judgment
from calipers.judges.request import NothingToJudge, request
from calipers.judges.rubrics import Rubric
from calipers.judges.spec import JudgeSpec
from calipers.systems.budget import limit_output
from calipers.systems.estimate import SuiteEstimate, SystemEstimate, estimate_tokens
from calipers.systems.journal import Journal
from calipers.systems.pricing import find_pricing


def estimate_judging(work: Work) -> SuiteEstimate:
    """Count what the output lacks; nothing is called, and nothing written."""
    rubrics = work.rubrics()
    check_places(work)
    done = _read_done(work, rubrics)
    asked: dict[str, list[int]] = {judge.name: [] for judge in work.judges}
    by_name = {j.name: (j, r) for j, r in zip(work.judges, rubrics, strict=True)}
    for key, record in work.records(lambda _: None):
        for place in work.list_places(key) if has_answer(record) else ():
            before = done.get(place)
            if before is None or before.failed:
                tokens = _count_tokens(*by_name[place[1]], work.rename(record))
                asked[place[1]] += [] if tokens is None else [tokens]
    rows = [
        _estimate(model, asked[judge.name], work.price_file, is_second=at > 0)
        for judge in work.judges
        for at, model in enumerate(judge.models)
    ]
    return SuiteEstimate(systems=tuple(rows))


def _read_done(work: Work, rubrics: Sequence[Rubric]) -> Mapping[Place, Judgment]:
    path = locate_journal(work.output)
    if not path.exists() or not path.stat().st_size:
        return {}
    with closing(Journal(path)) as journal:
        return JudgeJournal(journal, work.judges, rubrics).done


def _count_tokens(judge: JudgeSpec, rubric: Rubric, record: Mapping[str, Any]) -> int | None:
    try:
        asked = request(rubric, record, asks_confidence=judge.asks_confidence)
    except NothingToJudge:
        return None
    return estimate_tokens(asked.whole)


def _estimate(
    judge: JudgeSpec, prompts: Sequence[int], price_file: str | None, *, is_second: bool
) -> SystemEstimate:
    """Return the estimate of one model's calls; of a second one, the most there may be."""
    pricing, most = find_pricing(judge), limit_output(judge.settings)
    source = None if pricing is None else pricing.source

    def sum_usd(output: int | None) -> float | None:
        if pricing is None or output is None:
            return None
        return sum(pricing.price_tokens(input=n, output=output) for n in prompts)

    return SystemEstimate(
        name=f"{judge.model}, where unsure" if is_second else judge.name,
        calls=len(prompts),
        input_tokens=sum(prompts),
        output_tokens=None if most is None else most * len(prompts),
        input_usd=sum_usd(0),
        most_usd=sum_usd(most),
        price=source if judge.price is None else price_file,
    )
