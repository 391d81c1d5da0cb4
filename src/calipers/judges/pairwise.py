"""Answers compared in pairs, each pair in both orders, so that no position is favoured.

A comparison is a rubric of one criterion, `preference`, on a scale from the first answer to the
second: requests, retries, budget, cache and journal are those of every other judgment. A pair has a
winner if both orders name it, as in Zheng et al. (2023), arXiv 2306.05685; if they differ it is a
tie, and if one of them failed there is no result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise as neighbours
from pathlib import Path
from typing import Any

from calipers.judges.ask import Judgment
from calipers.judges.judge_files import PairCounts, Work, has_answer
from calipers.judges.panels import list_rubrics
from calipers.judges.rubrics import Criterion, Reads, Rubric
from calipers.records.task_data import read_records
from calipers.support.errors import DataError, UsageError

PREFERENCE = "preference"
SIDES = ("a", "b")
_TWO = 2
_MIDDLE = 2.0  # of the scale: neither is better
_KEPT = ("id", "tier", "variant", "run", "category", "capability", "input")
_OF_JUDGE = ("rubric", "rubric_hash", "settings", "sample", "cascade")
_USED = ("prompt_tokens", "completion_tokens", "cost_usd")
_DEFAULT = Rubric(
    name=PREFERENCE,
    question="Which answer serves the task better: does what is asked, is correct, and is clear?",
    criteria=[Criterion(name=PREFERENCE, says="the better answer")],
)


def make_pair_rubric(rubric: Rubric) -> Rubric:
    """Return the rubric by which two answers are compared; UsageError if it does not read one."""
    answers = [text_read for text_read in rubric.reads if text_read.field == "answer"]
    if len(answers) != 1 or any(text_read.field == "trace" for text_read in rubric.reads):
        raise UsageError(
            f"the rubric {rubric.name} must read exactly one answer to compare two",
            fix="reads: [{name: task, field: input}, {name: answer, field: answer}]",
        )
    [answer] = answers
    aspects_said = [f"{criterion.name}: {criterion.says}" for criterion in rubric.criteria]
    aspects_said += (f"{item.name}: {item.says}" for item in rubric.items)
    both = [
        Reads(name=f"{answer.name} {place}", field=f"answer_{place}", limit=answer.limit)
        for place in (1, 2)
    ]
    aspects = "" if rubric is _DEFAULT else f" Consider {'; '.join(aspects_said)}."
    return Rubric(
        name=rubric.name,
        question=f"Compare two answers to one task. {rubric.question}{aspects} The order in which "
        "they are shown says nothing, and a longer one is not better for its length.",
        reads=[*(text_read for text_read in rubric.reads if text_read is not answer), *both],
        criteria=[Criterion(name=PREFERENCE, says="which of the two is better")],
        lowest=1,
        highest=3,
        scale=f"Give 1 where {answer.name} 1 is better, 3 where {answer.name} 2 is better, and 2 "
        "only where neither is.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairWork(Work):
    """Two files whose answers to the same tasks are compared, each pair in both orders."""

    told: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.files) != _TWO:
            raise UsageError(
                f"--pairwise compares two files, not {len(self.files)}",
                fix="calipers judge --pairwise A.jsonl B.jsonl --model M -o pairs.jsonl",
            )

    @property
    def notices(self) -> Iterable[str]:
        """Tasks that only one file has, and records that repeat another."""
        return tuple(self.told)

    def rubrics(self) -> list[Rubric]:
        """Return the rubric of each judge, for two answers."""
        named = [judge for judge in self.judges if judge.rubric != PREFERENCE]
        read = iter(list_rubrics(named, Path()))
        return [
            make_pair_rubric(
                _DEFAULT.set_limit(judge.limit) if judge.rubric == PREFERENCE else next(read)
            )
            for judge in self.judges
        ]

    def records(self, on_bad: Callable[[DataError], None]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each pair twice, its answers in either order, with a key for each."""
        read = [self._read_side(file, on_bad) for file in self.files]
        sides, models = [side for side, _ in read], [model for _, model in read]
        common = [key for key in sides[0] if key in sides[1]]
        if not common:
            raise DataError(
                f"no id is in both {self.files[0]} and {self.files[1]}",
                fix="name the field that identifies tasks: --map id=NAME",
            )
        for file, side in zip(self.files, sides, strict=True):
            if alone := len(side) - len(common):
                self.told[f"{alone:,} records are only in {file}, and are not compared"] = None
        inputs = ([side[key].get("input") for side in sides] for key in common)
        if differ := sum(None not in names and names[0] != names[1] for names in inputs):
            self.told[f"{differ:,} tasks have another input in {self.files[1]}"] = None
        stems = [Path(file).stem for file in self.files]
        named = (names for names in (models, stems) if None not in names and names[0] != names[1])
        names = [str(name) for name in next(named, self.files)]
        for key in common:
            yield from _make_both_orders([side[key] for side in sides], names)

    def _read_side(
        self, file: str, on_bad: Callable[[DataError], None]
    ) -> tuple[dict[tuple[str, ...], dict[str, Any]], str | None]:
        """Return a file's records by id, tier and run, of several the first; and their model."""
        by_task: dict[tuple[str, ...], dict[str, Any]] = {}
        repeated = 0
        for record in read_records(file, on_bad=on_bad if self.skip_bad else None):
            seen = record | {name: record.get(theirs) for name, theirs in self.map.items()}
            if seen.get("id") is None:
                raise DataError(
                    f"{file}: a record has no id to pair by",
                    fix="name the field that identifies tasks: --map id=NAME",
                )
            key = tuple(str(seen.get(name)) for name in ("id", "tier", "variant", "run"))
            repeated += key in by_task
            by_task.setdefault(key, seen)
        models = {
            str(record["model"]) for record in by_task.values() if record.get("model") is not None
        }
        if len(models) > 1:
            raise UsageError(
                f"{file}: it holds several systems: {', '.join(sorted(models)[:4])}",
                fix="name a file for each of the two to compare",
            )
        if repeated:
            prefix = f"{file}: {repeated:,} records repeat the id, tier and run of another: "
            self.told[f"{prefix}the first is compared"] = None
        return by_task, next(iter(models), None)

    def rename(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the record as the judges read it: its fields have our names already."""
        return record

    def lines(
        self, rows: Iterable[tuple[dict[str, Any], Sequence[Judgment]]]
    ) -> Iterator[dict[str, Any]]:
        """Yield a line per pair and judgment of it: who won, in both orders together."""
        for place, (one, other) in enumerate(neighbours(rows)):
            if place % _TWO == 0:
                yield from _decide_pair(one, other)


def _make_both_orders(
    sides: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    answers = [side.get("answer") for side in sides]
    texts = [answer if isinstance(answer, str | None) else json.dumps(answer) for answer in answers]
    known = {name: value for name, value in sides[0].items() if value is not None}
    content = json.dumps([names, *sides], sort_keys=True).encode()
    digest = sha256(content).hexdigest()[:24]
    failed = [name for name, side in zip(names, sides, strict=True) if not has_answer(side)]
    for first in (0, 1):
        yield (
            f"{digest}:{SIDES[first]}",
            {
                "input": sides[1].get("input"),
                **known,
                "error": f"the call of {failed[0]} failed" if failed else None,
                "a": names[0],
                "b": names[1],
                "first": SIDES[first],
                "answer_1": texts[first],
                "answer_2": texts[1 - first],
            },
        )


Asked = tuple[dict[str, Any], Sequence[Judgment]]


def _decide_pair(one: Asked, other: Asked) -> Iterator[dict[str, Any]]:
    """Yield the result of each judge, or one without any where nobody was asked."""
    record, judgments = one
    swapped = {_identify_judge(judgment.fields): judgment.fields for judgment in other[1]}
    texts = {"a": record["answer_1"], "b": record["answer_2"]}
    shared = {name: record[name] for name in _KEPT if record.get(name) is not None}
    shared |= {"a": record["a"], "b": record["b"]}
    sizes = {f"length_{side}": None if t is None else len(t) for side, t in texts.items()}
    answers = sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:16]
    judged = {_identify_judge(judgment.fields): judgment.fields for judgment in judgments}
    for who in dict.fromkeys((*judged, *swapped)):
        both = (judged.get(who), swapped.get(who))
        known = next(judgment for judgment in both if judgment is not None)
        orders = [_describe_order(fields, first) for fields, first in zip(both, SIDES, strict=True)]
        yield {
            **shared,
            **combine_orders([order["winner"] for order in orders]),
            "judge": known["judge"],
            "judge_model": known["model"],
            **{name: known[name] for name in _OF_JUDGE if name in known},
            "orders": orders,
            **sizes,
            "answers": answers,
            **_sum_usage(both),
        }
    if not judged and not swapped:
        reason = record["error"] or "it was not judged"
        yield {**shared, "winner": None, "preference": None, "reason": reason, **sizes}


def _identify_judge(judgment: Mapping[str, Any]) -> tuple[str, int]:
    return str(judgment["judge"]), int(judgment.get("sample", 1))


def _describe_order(judgment: Mapping[str, Any] | None, first: str) -> dict[str, Any]:
    """Return what a judge said when this side's answer stood first."""
    if judgment is None:
        return {"first": first, "winner": None, "reason": "it was not judged"}
    winner = None
    if judgment["scores"] is not None:
        of_first = _MIDDLE - judgment["scores"][PREFERENCE]
        second = SIDES[1 - SIDES.index(first)]
        winner = "tie" if of_first == 0 else first if of_first > 0 else second
    flags = {"flags": judgment["flags"]} if judgment.get("flags") else {}
    return {"first": first, "winner": winner, "reason": judgment["reason"], **flags}


def combine_orders(winners: Sequence[str | None]) -> dict[str, Any]:
    """Return the winner over the orders, and the mean preference: 1 for a, −1 for b.

    >>> combine_orders(["a", "a"]), combine_orders(["a", "b"])
    ({'winner': 'a', 'preference': 1.0}, {'winner': 'tie', 'preference': 0.0})
    >>> combine_orders(["a", None])["winner"] is None
    True
    """
    if not winners or None in winners:
        return {"winner": None, "preference": None}
    values = [{"a": 1.0, "b": -1.0, "tie": 0.0}[str(winner)] for winner in winners]
    winner = winners[0] if len(set(winners)) == 1 else "tie"
    return {"winner": winner, "preference": sum(values) / len(values)}


def _sum_usage(judgments: Iterable[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return what judging used, in both orders; a sum of what is unknown is unknown."""
    known = [judgment for judgment in judgments if judgment is not None]
    sums = {
        name: sum(judgment[name] for judgment in known)
        for name in _USED
        if all(name in judgment for judgment in known)
    }
    return {"judging": sums} if sums else {}


def count_pairs(output: Path) -> PairCounts | None:
    """Return how the pairs in an output were decided; None where there are none."""
    counts = dict.fromkeys(("a", "b", "tie", None), 0)
    names, inconsistent = None, 0
    for record in read_records(output):
        names = names or (record["a"], record["b"])
        counts[record["winner"]] += 1
        winners = {order["winner"] for order in record.get("orders", ())}
        inconsistent += {"a", "b"} <= winners
    if names is None:
        return None
    return PairCounts(
        a=str(names[0]),
        b=str(names[1]),
        a_wins=counts["a"],
        b_wins=counts["b"],
        ties=counts["tie"],
        inconsistent=inconsistent,
        undecided=counts[None],
    )
