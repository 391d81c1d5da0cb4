"""Explain: what it prints is enough to compute the value again."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import calipers as cal
from calipers.cli import app
from calipers.metrics import catalogue
from calipers.metrics.declare.declaration import Rank
from calipers.metrics.families.judged import RUBRICS
from tests.files import write_lines

CRITERIA = [name for rubric in RUBRICS for name in rubric.weights]
RECORDS: list[dict[str, Any]] = [
    {
        "id": f"q{number % 7}",
        "model": "ab"[number % 2],
        "run": number // 7,
        "target": None if number == 5 else str(number % 3),
        "reference": None if number == 10 else ["0", "1.0 2"],
        "answer": None if number in (4, 11) else ("0", "1.0", "2", "x")[number * 5 // 2 % 4],
        "cot": None if number % 6 == 5 else f"1. {number} + 1 = {number + number % 4}\n- sorry" * 2,
        "prob_correct": None if number == 9 else (number * 37 % 100) / 100,
        "prompt_tokens": 100 + number,
        "completion_tokens": None if number % 5 == 0 else number,
        "latency_ms": None if number == 3 else 1000.0 / (number + 1),
        "error": "boom" if number in (8, 20) else None,
        "passed": None if number == 2 else number % 3 > 0,
        "impl_rate": None if number == 6 else number / 28,
        "cost_usd": None if number == 7 else 0.01 * (number + 1),
        "duration_seconds": None if number == 1 else 60.0 / (number + 1),
        "category": ("adversarial", "happy_path", None)[number % 3],
        "expected_behaviors": None if number == 10 else ["greet", "ask", "close"][: number % 4],
        "observed_behaviors": None if number == 12 else ["ask", "greet"][: number % 3],
        "violations": ["leak"] if number == 13 else None,
        "predicted": None if number == 14 else number % 3 == 0,
        "actual": number % 2 == number % 5,
        "passages": None
        if number == 4
        else [
            {"id": step, "text": f"The answer is {number + step}."} for step in range(number % 4)
        ],
        "relevant_ids": [2, 5],
        "judgments": None
        if number == 12
        else [
            {
                "judge": "j",
                "cost_usd": 0.001 * number,
                "scores": dict.fromkeys(CRITERIA, 1 + number * 3 % 5),
            },
            {
                "judge": "k",
                "rubric": "quality",
                "cost_usd": 0,
                "scores": {"clarity": number / 28},
            },
        ],
        "trace": None
        if number == 13
        else {
            "tool_calls": [{"tool_name": "abcab"[number * step % 5]} for step in range(7)],
            "agent_interactions": [
                {
                    "from": "xyz"[number % 3],
                    "to": "xyz"[step % 3],
                    "type": ("handoff", "chat")[step % 2],
                }
                for step in range(1 + number % 4)
            ],
            "agent_tasks": {"x": number % 5, "y": 3},
        },
    }
    for number in range(28)
]

METRICS = sorted(name for name in catalogue() if not re.search(r"_(?:[2-9]|10)$", name))
# A rank, and what is null without its model or its mapping of contexts to tools.
WITHOUT_SUMS = (
    *(name for name, metric in catalogue().items() if isinstance(metric.aggregate, Rank)),
    "semantic_similarity",
    "output_similarity",
    "task_success",
    "tool_selection_accuracy",
)


@pytest.fixture(scope="module")
def by_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """What is printed of a metric, by model."""
    folder = tmp_path_factory.mktemp("records")
    return cache(lambda metric: explained(metric, "--by", "model", tmp_path=folder))


@pytest.fixture(scope="module")
def scored() -> Sequence[cal.Group]:
    """Every metric of each model."""
    return cal.score(RECORDS, by="model", metrics=METRICS).groups


def explained(metric: str, *args: str, tmp_path: Path) -> str:
    path = write_lines(tmp_path / "a.jsonl", RECORDS)
    result = CliRunner().invoke(app, ["explain", metric, str(path), *args])
    assert result.exit_code == 0, result.output
    return result.stdout


def sections(text: str) -> list[str]:
    """What is printed of each group."""
    return re.split(r"\n\n(?=\S.*\nvalue    )", text)[1:]


def printed_value(section: str) -> float:
    match = re.search(r"^value    (?:\S+ % \()?([^\s)]+)\)?$", section, re.MULTILINE)
    assert match is not None
    return float(match[1])


def computed(section: str) -> float:
    """The work that is shown, done: `(ln 3 − 0.5 / 3) / ln 3, …`."""
    match = re.search(r"^         = (.*)$", section, re.MULTILINE)
    assert match is not None
    formula = re.sub(r"ln (\S+?)(?=[\s)]|$)", r"log(\1)", match[1].split(",")[0].replace("−", "-"))
    formula = formula.replace("·", "*")
    assert re.fullmatch(r"(?:log|[-+*/(). \de])+", formula), formula
    return float(eval(formula, {"__builtins__": {}, "log": math.log}))


def tables(section: str) -> list[list[dict[str, str]]]:
    """The tables in the text, a dict per row."""
    found: list[list[dict[str, str]]] = []
    lines = section.splitlines()
    for number, line in enumerate(lines):
        if line.strip() and not line.strip(" ─"):
            names = re.split(r"\s{2,}", lines[number - 1].strip())
            rows = []
            for row in lines[number + 1 :]:
                if not row.strip():
                    break
                rows.append(dict(zip(names, re.split(r"\s{2,}", row.strip()), strict=True)))
            found.append(rows)
    return found


@pytest.mark.parametrize("metric", [name for name in METRICS if name not in WITHOUT_SUMS])
def test_the_work_that_is_shown_gives_the_value(
    metric: str, by_model: Callable[[str], str], scored: Sequence[cal.Group]
) -> None:
    for section, group, model in zip(sections(by_model(metric)), scored, "ab", strict=True):
        assert group.by == {"model": model}
        assert section.startswith(f"{model}\n")
        assert printed_value(section) == group.metrics[metric].value
        assert computed(section) == pytest.approx(printed_value(section), abs=1e-12)


def test_the_rank_that_is_shown_gives_the_value(tmp_path: Path) -> None:
    section = explained("latency_p95_ms", "--rows", "30", tmp_path=tmp_path)
    match = re.search(r"= the value at position ⌈0\.95 · (\d+)⌉ of \1 in ascending order", section)
    assert match is not None
    [rows] = tables(section)
    values = sorted(float(row["latency_ms"]) for row in rows)
    assert len(values) == int(match[1])
    assert printed_value(section) == values[math.ceil(0.95 * len(values)) - 1]


def test_the_bins_that_are_shown_give_the_calibration_error(tmp_path: Path) -> None:
    section = explained("ece", "--bins", "5", tmp_path=tmp_path)
    assert "counted  in all" in section
    bins, _ = tables(section)
    rows = sum(int(row["bin_n"]) for row in bins)
    gaps = sum(abs(float(row["bin_confidence"]) - int(row["bin_right"])) for row in bins)
    assert gaps / rows == pytest.approx(printed_value(section), abs=1e-12)
    assert f"rows     {rows} used of 28" in section


def test_the_answers_that_are_shown_give_the_entropy(tmp_path: Path) -> None:
    section = explained("sce", tmp_path=tmp_path)
    answers, _ = tables(section)
    counts = [int(row["answer_n"]) for row in answers]
    entropy = -sum(n / sum(counts) * math.log(n / sum(counts)) for n in counts)
    assert entropy == pytest.approx(printed_value(section), abs=1e-12)


@pytest.mark.parametrize("metric", ["brier", "cot_tokens_mean", "accuracy", "total_tokens_mean"])
def test_the_rows_that_are_shown_give_the_mean(metric: str, tmp_path: Path) -> None:
    section = explained(metric, "--rows", "99", tmp_path=tmp_path)
    [rows] = tables(section)
    [name] = set(rows[0]) - {"id"}
    values = [{"true": 1.0, "false": 0.0}.get(row[name]) for row in rows]
    numbers = [
        float(row[name]) if value is None else value
        for row, value in zip(rows, values, strict=True)
    ]
    assert math.fsum(numbers) / len(numbers) == pytest.approx(printed_value(section), abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_rows_used_and_left_out_add_up(
    metric: str, by_model: Callable[[str], str], scored: Sequence[cal.Group]
) -> None:
    for section, group in zip(sections(by_model(metric)), scored, strict=True):
        match = re.search(r"^rows     (\d+) used of (\d+)$", section, re.MULTILINE)
        assert match is not None
        if metric != "safety_rate":  # which is about adversarial rows only
            assert int(match[1]) == group.records - group.errors - group.metrics[metric].missing
        assert int(match[2]) == group.records
        left_out = re.findall(r"^         (\d+) left out: (.*)$", section, re.MULTILINE)
        assert int(match[1]) + sum(int(count) for count, _ in left_out) == group.records
        assert ("the call failed" in dict(map(reversed, left_out))) == (group.errors > 0)


def test_each_row_is_left_out_for_one_reason() -> None:
    rows = [
        {"id": "1", "prob_correct": 0.5, "correct": True},
        {"id": "2", "correct": True},
        {"id": "3", "prob_correct": 0.5},
        {"id": "4"},
        {"id": "5", "prob_correct": 0.5, "correct": True, "error": "boom"},
    ]
    [group] = cal.explain("brier", rows).groups
    assert group.left_out == {
        "the call failed": 1,
        "without prob_correct": 2,
        "without correct, or answer and target": 1,
    }
    assert (group.n, group.records, group.errors) == (1, 5, 1)


def test_rows_left_out_for_another_reason_are_told_with_the_rule() -> None:
    [group] = cal.explain("math_usr", [{"cot": "no equation"}, {"cot": "1 + 1 = 2"}]).groups
    [(reason, count)] = group.left_out.items()
    assert count == 1
    assert reason.startswith("otherwise (a row without a cot, or whose cot holds no equation")


def test_math_usr_quotes_the_wrong_equations() -> None:
    many = "\n".join(f"{number} + 1 = {number}" for number in range(5))
    rows = [
        {"id": "a", "cot": "so 2 + 2 = 4"},
        {"id": "b", "cot": "so 2 + 2 = 5 apples, and 1 + 1 = 2; \\(3 \\times 3 = 6\\)"},
        {"id": "c", "cot": many},
        {"id": "d"},
    ]
    [group] = cal.explain("math_usr", rows).groups
    quoted = dict(group.weigh_most.select("id", "wrong").iter_rows())
    assert quoted == {
        "c": "0 + 1 = 0; 1 + 1 = 1; 2 + 1 = 2; and 2 more",
        "b": "2 + 2 = 5; 3 \\times 3 = 6",
        "a": None,
    }


def test_the_rows_that_weigh_most_come_first() -> None:
    rows = [{"id": f"r{number}", "latency_ms": number**2} for number in range(10)]
    [group] = cal.explain("latency_mean_ms", rows, rows=3).groups
    assert group.weigh_most["id"].to_list() == ["r9", "r8", "r0"]
    unnamed = cal.explain("latency_mean_ms", [{"latency_ms": 1}, {"latency_ms": 9}, {}])
    assert set(unnamed.groups[0].weigh_most["id"]) == {"1", "2"}


def test_without_a_value_the_reason_stands_in_its_place() -> None:
    text = str(cal.explain("brier", [{"answer": "a"}]))
    assert "value    —" in text
    assert "no record has prob_correct and correct, or answer and target" in text
    assert "rows     0 used of 1" in text


def test_groups_stand_in_the_order_of_the_score(tmp_path: Path) -> None:
    rows = [{"run": run, "answer": "a"} for run in (10, None, 9, 2)]
    path = write_lines(tmp_path / "a.jsonl", rows)
    found = [group.by["run"] for group in cal.explain("sce", path, by="run").groups]
    assert found == [2, 9, 10, None]
    assert [type(value) for value in found[:3]] == [int, int, int]


def test_a_field_that_no_record_has_is_an_error() -> None:
    with pytest.raises(cal.UsageError, match="--by modle: no record has a value in modle"):
        cal.explain("sce", RECORDS, by="modle")
    with pytest.raises(cal.UsageError, match="--map answer=nope"):
        cal.explain("sce", RECORDS, map={"answer": "nope"})
    with pytest.raises(cal.UsageError, match="no metric is called scee"):
        cal.explain("scee", RECORDS)


def test_bad_rows_stop_or_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"answer": "a"}\n{"answer": \n')
    with pytest.raises(cal.DataError, match=re.escape(f"{path}:2: not JSON")):
        cal.explain("sce", path)
    [group] = cal.explain("sce", path, on_bad="skip").groups
    assert group.records == 1


def test_settings_count_in_what_is_explained() -> None:
    rows = [{"answer": "18.0", "target": "18"}]
    assert cal.explain("accuracy", rows).groups[0].value == 1.0
    assert cal.explain("accuracy", rows, normalize="text").groups[0].value == 0.0
    assert (
        json.loads(cal.score(rows, normalize="text").to_json())["settings"]["normalize"] == "text"
    )


def test_a_notebook_shows_the_text_with_what_is_hostile_escaped() -> None:
    page = cal.explain("accuracy", [{"id": "<b>", "answer": "1", "target": "1"}])._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_where_the_variance_comes_from() -> None:
    rows = [
        {"id": str(task), "run": run, "correct": (task % 3 > 0) != (run == task % 4)}
        for task in range(30)
        for run in range(4)
    ]
    (group,) = cal.explain("accuracy", rows).groups
    assert group.variance is not None
    assert group.variance.runs is not None
    assert group.variance.tasks + group.variance.runs == pytest.approx(1)
    assert "from the runs of a task" in str(cal.explain("accuracy", rows))
    once = [row for row in rows if row["run"] == 0]
    assert cal.explain("accuracy", once).groups[0].variance is None


def test_judges_that_disagree_have_a_part_in_the_variance() -> None:
    rows = [
        {
            "id": str(task),
            "judgments": [
                {"judge": "a", "weighted_score": 0.2 + 0.02 * task},
                {"judge": "b", "weighted_score": 0.4 + 0.02 * task},
            ],
        }
        for task in range(30)
    ]
    (group,) = cal.explain("impl_rate", rows).groups
    assert group.variance is not None
    assert group.variance.judges == pytest.approx(
        (0.02 / 2) / statistics.variance(0.02 * task for task in range(30))
    )
    assert "from the judges of a run" in str(cal.explain("impl_rate", rows))
