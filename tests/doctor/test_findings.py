"""Each kind of finding: records that have it, and records that nearly do."""

from __future__ import annotations

from typing import Any

import pytest

import calipers as cal

Rows = list[dict[str, Any]]


def kinds(rows: Any) -> dict[str, cal.Finding]:
    return {each.kind: each for each in cal.doctor(rows).findings}


def tasks(count: int = 40, **fields: Any) -> Rows:
    """Records of one system, a third of them wrong, with whatever fields besides."""
    return [
        {
            "id": f"q{n}",
            "answer": str(n if n % 3 else n + 1000),
            "target": str(n),
            **{name: value(n) if callable(value) else value for name, value in fields.items()},
        }
        for n in range(count)
    ]


def systems(*names: str, count: int = 40) -> Rows:
    return [row for name in names for row in tasks(count, model=name)]


def test_ordinary_records_have_no_finding() -> None:
    assert kinds(tasks()) == {}
    assert kinds(systems("a", "b")) == {}


def test_bad_rows() -> None:
    found = kinds([*tasks(), {"id": "x", "prob_correct": 87}])["bad rows"]
    assert (found.severity, found.count, found.examples) == ("problem", 1, ("<records>:41",))
    assert "divide by 100" in found.fix
    negative = kinds([*tasks(), {"id": "x", "cost_usd": -1}])["bad rows"]
    assert "divide" not in negative.fix


def test_failed_calls() -> None:
    rows = tasks(error=lambda n: "timeout: no reply" if n < 4 else None)
    found = kinds(rows)["failed calls"]
    assert (found.severity, found.count) == ("warning", 4)
    assert "timeout 4" in found.says
    assert "failed calls" not in kinds(tasks(error=""))


def test_ids() -> None:
    some = tasks()
    del some[3]["id"]
    assert kinds(some)["ids"].severity == "problem"
    none = [{name: v for name, v in row.items() if name != "id"} for row in tasks()]
    assert kinds(none)["ids"].severity == "note"
    reused = [{**row, "id": f"q{n % 20}", "input": f"text {n}"} for n, row in enumerate(tasks())]
    assert kinds(reused)["ids"].count == 20
    repeated = [
        {**row, "id": f"q{n % 20}", "input": f"text {n % 20}"} for n, row in enumerate(tasks())
    ]
    assert "ids" not in kinds(repeated)


def test_duplicates() -> None:
    rows = tasks(run=1)
    found = kinds([*rows, {**rows[5], "answer": "other"}])["duplicates"]
    assert (found.severity, found.count, found.examples) == ("problem", 1, ("q5",))
    assert "duplicates" not in kinds([*rows, {**rows[5], "run": 2}])
    unnumbered = tasks()
    assert kinds([*unnumbered, unnumbered[5]])["duplicates"].severity == "warning"
    another = {**unnumbered[5], "answer": "other"}
    assert "duplicates" not in kinds([*unnumbered, another])


def test_unequal_runs() -> None:
    twice = [{**row, "run": run} for run in (1, 2) for row in tasks()]
    assert kinds(twice[:-3])["unequal runs"].count == 3
    assert "unequal runs" not in kinds(twice)


def test_missing_tasks() -> None:
    found = kinds(systems("a", "b", "c")[:-5])["missing tasks"]
    assert (found.severity, found.count) == ("warning", 5)
    assert "c lacks 5" in found.says
    apart = [*tasks(model="a"), *({**row, "id": f"other {row['id']}"} for row in tasks(model="b"))]
    assert "missing tasks" not in kinds(apart)
    more = [*systems("a", "b"), {"id": "alone", "model": "b", "answer": "1", "target": "1"}]
    assert "missing tasks" not in kinds(more)


def test_a_recorded_correct_that_contradicts_the_answer() -> None:
    swapped = tasks(correct=lambda n: n % 3 == 0)
    assert kinds(swapped)["labels"].severity == "problem"
    some = tasks(correct=lambda n: n % 3 != 0 and n > 10)
    assert kinds(some)["labels"].severity == "warning"
    # A grader that is more lenient than equal texts contradicts nothing.
    assert "labels" not in kinds(tasks(correct=True))


def test_accuracy_below_chance() -> None:
    labels = ("yes", "no")

    def answers(wrong: int) -> Rows:
        return tasks(
            60,
            target=lambda n: labels[n % 2],
            answer=lambda n: labels[(n + (n % 10 < wrong)) % 2],
        )

    assert "guessing" in kinds(answers(9))["labels"].says
    assert "labels" not in kinds(answers(5))
    # Hard questions with many answers are answered wrongly, which is no swap.
    assert "labels" not in kinds(tasks(60, answer=lambda n: str(n + 1)))


def test_leaked_targets() -> None:
    leaks = tasks(input=lambda n: f"What is {n} + 0? Answer: {n}")
    assert kinds(leaks)["leaked targets"].count == 40
    shots = tasks(input=lambda n: f"Q: 1 + 1? Answer: 2\nQ: {n} + 0?", target=lambda n: str(n % 3))
    assert "leaked targets" not in kinds(shots)
    options = tasks(
        input="Which? (A) one (B) two\nAnswer:", target=lambda n: "(A)" if n % 2 else "(B)"
    )
    assert "leaked targets" not in kinds(options)


def test_unread_answers() -> None:
    missing = tasks(answer=lambda n: None if n < 5 else str(n))
    assert kinds(missing)["unread answers"].count == 5
    inside = kinds(tasks(answer=lambda n: f"The result is {n}."))["unread answers"]
    assert inside.severity == "problem"
    assert "--set answer=last-number" in inside.fix
    assert "unread answers" not in kinds(tasks(answer=lambda n: f"The result is {n}99."))


def test_constant_answers() -> None:
    assert (
        kinds(tasks(answer=lambda n: str(n) if n < 5 else "I cannot"))["constant answers"].count
        == 35
    )
    # Most are right to say yes where nearly all targets are yes.
    yes = tasks(answer="yes", target=lambda n: "no" if n % 8 == 0 else "yes")
    assert "constant answers" not in kinds(yes)


def test_truncated_replies() -> None:
    told = tasks(finish_reason=lambda n: "length" if n < 3 else "stop")
    assert kinds(told)["truncated replies"].count == 3
    text = "the quick brown fox jumps over the lazy dog and on "
    cut = tasks(cot=lambda n: (f"{n} {text}" * 9)[:300] if n < 10 else f"{n} {text}.")
    assert kinds(cut)["truncated replies"].count == 10
    ended = tasks(cot=lambda n: (f"{n} {text}" * 9)[:299] + "." if n < 10 else f"{n} {text}.")
    assert "truncated replies" not in kinds(ended)
    capped = tasks(completion_tokens=lambda n: 512 if n < 10 else 20 + n)
    assert kinds(capped)["truncated replies"].count == 10
    alike = tasks(completion_tokens=lambda n: 60 - n % 6)
    assert "truncated replies" not in kinds(alike)


def test_confidence() -> None:
    assert "tells nothing" in kinds(tasks(prob_correct=0.9))["confidence"].says
    reverse = tasks(90, prob_correct=lambda n: 0.3 + n / 1000 if n % 3 else 0.9 - n / 1000)
    assert "AUROC 0.00" in kinds(reverse)["confidence"].says
    noise = tasks(90, prob_correct=lambda n: (n * 37 % 90) / 90)
    assert "confidence" not in kinds(noise)


def test_units() -> None:
    tokens = {"prompt_tokens": 1000, "completion_tokens": 500}
    assert "cents" in kinds(tasks(cost_usd=450.0, **tokens))["units"].says
    assert "units" not in kinds(tasks(cost_usd=0.15, **tokens))
    assert "seconds" in kinds(tasks(latency_ms=2.5, **tokens))["units"].says
    assert "units" not in kinds(tasks(latency_ms=900.0, duration_seconds=0.9, **tokens))
    both = tasks(latency_ms=0.9, duration_seconds=0.9)
    assert "1000 times" in kinds(both)["units"].says


@pytest.mark.parametrize("favours", [True, False])
def test_a_judge_that_favours_length(favours: bool) -> None:  # noqa: FBT001
    rows = []
    for place, model in enumerate(("short", "long")):
        for n in range(40):
            chars = 50 + 300 * place + n * 7 % 20
            score = 0.4 + chars / 1000 if favours else 0.4 + (n * 13 + place * 5) % 10 / 20
            judgments = [{"judge": "j", "weighted_score": score}]
            rows.append(
                {"id": f"q{n}", "model": model, "answer": "x" * chars, "judgments": judgments}
            )
    assert ("judge favours length" in kinds(rows)) is favours


def test_ceiling_and_floor() -> None:
    assert kinds(tasks(answer=str))["ceiling or floor"].count == 40
    assert "floor" in kinds(tasks(answer=lambda n: str(n + 1000)))["ceiling or floor"].says
    mixed = [*tasks(model="good", answer=str), *tasks(model="fair")]
    assert "ceiling or floor" not in kinds(mixed)


def test_many_systems_share_a_finding() -> None:
    rows = [row for n in range(9) for row in tasks(model=f"m{n}", prob_correct=0.9)]
    found = [each for each in cal.doctor(rows).findings if each.kind == "confidence"]
    assert [each.system for each in found] == ["m0", "m1", "m2", None]
    assert found[-1].says.startswith("6 more systems have it")
