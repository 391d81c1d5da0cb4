"""Experiments of Zeta Reason: every form of its files, its own figures, and its keys."""

from __future__ import annotations

import json
from collections import Counter
from math import log
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.commands import run
from tests.shared_data import FOLDER, needs_shared_data

KEY = "sk-live-0123456789abcdef"
ZETA = FOLDER / "native_logs" / "zeta"
MODELS = ("llama", "llama3", "Qwen/Qwen2.5-72B (beta) 🦙")
PARAGRAPHS = "U+2028:\u2028 and é"


def _make_task(number: int, model: int) -> dict[str, Any]:
    answer = str(18 + (number + model) % 3)
    chain = ["Add 1.\n1. first\n- second", "", "  \n ", None, f"Actually {PARAGRAPHS}"][number % 5]
    sure = [0.3, 0.95, None, float("nan"), 0.25, 1.0, 0.0][number % 7]
    return {
        "task_id": f"t-{number}",
        "input": f"How many, {PARAGRAPHS}?",
        "target": "18",
        "model_output": {
            "answer": f" {answer}.0" if number % 4 == 0 else answer,
            "cot_text": chain,
            "confidence": sure,
            "raw_response": f"the key {KEY} is wrong" if number == 1 else None,
            "prompt_tokens": 10 + number,
            "completion_tokens": 5,
            "total_tokens": 15 + number,
        },
        "correct": answer == "18" and number % 4 != 0,  # its code compares texts
        "prob_correct": sure,
        "prompt_tokens": 10 + number,
        "completion_tokens": 5,
        "total_tokens": 15 + number,
        "latency_ms": 1.5 * number,
    }


def _measure(tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """Measure as its code does: texts, bins closed on the left, blank chains left out."""
    n = len(tasks)
    right = [task["correct"] for task in tasks]
    texts = Counter(task["model_output"]["answer"].strip().lower() for task in tasks)
    chains = [task["model_output"]["cot_text"] for task in tasks]
    words = [len(chain.split()) for chain in chains if chain is not None and chain.strip()]
    known = [
        (task["prob_correct"], task["correct"])
        for task in tasks
        if task["prob_correct"] is not None and task["prob_correct"] == task["prob_correct"]
    ]
    bins: dict[int, list[tuple[float, bool]]] = {}
    for sure, correct in known:
        bins.setdefault(min(int(sure * 10), 9), []).append((sure, correct))
    return {
        "accuracy": sum(right) / n,
        "brier": sum((sure - correct) ** 2 for sure, correct in known) / len(known),
        "ece": sum(abs(sum(s for s, _ in each) - sum(c for _, c in each)) for each in bins.values())
        / len(known),
        "sce": -sum(count / n * log(count / n) for count in texts.values()),
        "usr": 1 - sum(right) / n,
        "cot_tokens_mean": sum(words) / len(words),
        "total_tokens_mean": sum(task["total_tokens"] for task in tasks) / n,
        "latency_p95_ms": None,
    }


def _make_experiment(models: tuple[str, ...] = MODELS, tasks: int = 20) -> dict[str, Any]:
    results = []
    for place, model in enumerate(models):
        made = [_make_task(number, place) for number in range(tasks)]
        configuration = {"model_id": model, "provider": "openai", "api_key": KEY}
        results.append(
            {
                "model_configuration": configuration,
                "metrics": _measure(made),
                "task_results": made,
                "total_tasks": tasks,
            }
        )
    about = {"id": "1", "name": "gsm", "dataset_name": "gsm.jsonl", "tags": ["night"]}
    return {"metadata": about, "results": results, "sampling_config": {"mode": "all"}}


def _write(path: Path, document: Any, indent: int | None = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=indent, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.mark.parametrize("indent", [None, 2])
def test_its_own_figures_stand_beside_ours_by_model(tmp_path: Path, indent: int | None) -> None:
    experiment = _make_experiment()
    score = cal.score(_write(tmp_path / "1.json", experiment, indent), by="model")
    assert {group.by["model"] for group in score.groups} == {*MODELS}
    stated = {each.name: each for each in score.inputs[0].stated}
    for result in experiment["results"]:
        model = result["model_configuration"]["model_id"]
        for name, value in result["metrics"].items():
            if value is None:
                assert f"{model}/{name}" not in stated
                continue
            figure = stated[f"{model}/{name}"]
            assert (figure.value, figure.ours) == (value, name)
            ours = score.group(model=model).metrics[name].value
            assert figure.measured == ours
            assert figure.equal is (abs(value - (ours or 0)) < 1e-6)
        for name in ("accuracy", "usr", "brier", "total_tokens_mean"):
            assert stated[f"{model}/{name}"].equal is True
        assert stated[f"{model}/sce"].equal is False
        assert "--set normalize=text gives theirs" in stated[f"{model}/sce"].reason
        assert "8 chains of thought that are blank" in stated[f"{model}/cot_tokens_mean"].reason
    assert stated["llama/ece"].equal is False
    assert "3 of its confidences stand on an edge of a bin" in stated["llama/ece"].reason
    text = cal.score(tmp_path / "1.json", by="model", normalize="text")
    assert all(each.equal for each in text.inputs[0].stated if each.name.endswith("/sce"))


def test_each_form_of_a_file_gives_the_same_records(tmp_path: Path) -> None:
    experiment = _make_experiment(tasks=3)
    [first, *_] = experiment["results"]
    forms = {
        "whole.json": experiment,
        "response.json": {"results": experiment["results"], "run_id": None},
        "one.json": {"result": first, "run_id": "r"},
        "bare.json": first,
    }
    for name, document in forms.items():
        table = cal.read(_write(tmp_path / name, document))
        own = table.filter(table["model"] == MODELS[0])
        assert own["task_id"].to_list() == ["t-0", "t-1", "t-2"]
        assert own["correct"].to_list() == [False, False, False]
        assert own["cot"].to_list() == ["Add 1.\n1. first\n- second", "", "  \n "]
        assert own["prob_correct"].to_list() == [0.3, 0.95, None]
        assert own["input"].to_list() == [f"How many, {PARAGRAPHS}?"] * 3
    assert cal.read(tmp_path / "whole.json")["id"][0] == "gsm.jsonl/t-0"
    assert cal.read(tmp_path / "response.json")["id"][0] == "t-0"


def test_keys_of_any_order_and_missing_ones(tmp_path: Path) -> None:
    experiment = _make_experiment(tasks=4)
    for result in experiment["results"]:
        for task in result["task_results"]:
            for name in ("prob_correct", "latency_ms", "total_tokens", "prompt_tokens"):
                del task[name]
            del task["model_output"]["total_tokens"]
        result.pop("total_tasks")
    backwards = json.loads(json.dumps(experiment), object_pairs_hook=lambda p: dict(reversed(p)))
    del experiment["sampling_config"]
    plain = cal.read(_write(tmp_path / "a.json", experiment))
    assert cal.read(_write(tmp_path / "b.json", backwards)).equals(plain)
    assert plain["prompt_tokens"].to_list()[:4] == [10, 11, 12, 13]  # of the output
    assert cal.score(tmp_path / "b.json").inputs[0].stated


def test_configurations_of_one_model_are_variants(tmp_path: Path) -> None:
    experiment = _make_experiment(("llama", "llama", "llama"), tasks=5)
    for result, chained in zip(experiment["results"], (True, False, False), strict=True):
        result["model_configuration"] |= {"use_cot": chained, "temperature": 0.7}
    path = _write(tmp_path / "1.json", experiment)
    table = cal.read(path)
    assert table["variant"].to_list() == [None] * 5 + ["use_cot=false"] * 10
    assert table["run"].to_list() == [None] * 5 + [1] * 5 + [2] * 5
    stated = {each.name: each for each in cal.score(path).inputs[0].stated}
    for place, label in enumerate(("llama", "llama, use_cot=false, run 1")):
        figure = stated[f"{label}/accuracy"]
        assert figure.value == experiment["results"][place]["metrics"]["accuracy"]
        assert figure.equal is True


def test_a_folder_of_experiments_keeps_its_data_sets_apart(tmp_path: Path) -> None:
    index = []
    for place, name in enumerate(("gsm.jsonl", "math.jsonl")):
        experiment = _make_experiment(tasks=6)
        experiment["metadata"] |= {"id": str(place), "dataset_name": name, "model_ids": []}
        experiment["metadata"] |= {"tasks_evaluated": 6, "accuracy_range": [0, 1]}
        _write(tmp_path / "experiments" / f"{place}.json", experiment)
        index.append(experiment["metadata"])
    _write(tmp_path / "experiments" / "metadata.json", index)
    for named in (tmp_path / "experiments", tmp_path, f"{tmp_path}/experiments/*.json"):
        score = cal.score(named, by="model")
        assert [group.records for group in score.groups] == [12, 12, 12]
        assert score.repeated == 0
        assert len([each for each in score.inputs if each.stated]) == 2
    assert "holds no records" in str(cal.score(f"{tmp_path}/experiments/*.json").notices)
    apart = run("compare", *(str(tmp_path / "experiments" / f"{n}.json") for n in range(2)))
    assert apart.exit_code == 2  # no task in common


def test_the_table_of_its_pages_is_read(tmp_path: Path) -> None:
    head = "Model,Task ID,Input,Target,Model Answer,Correct,Confidence,CoT Tokens,CoT Chars"
    rows = ['llama,t1,"a, ""b""\nc",18,18,true,0.5,65,293', "llama3,t1,x,18,,false,,,"]
    more = ",Step Count,Latency (ms),Prompt Tokens,Completion Tokens,Total Tokens"
    path = tmp_path / "gsm.csv"
    lines = [head + more, f"{rows[0]},0,4.91,70,73,143", f"{rows[1]},,,,,"]
    path.write_text("\n".join(lines), encoding="utf-8")
    table = cal.read(path)
    assert table["id"].to_list() == ["t1", "t1"]
    assert table["correct"].to_list() == [True, False]
    assert table["prob_correct"].to_list() == [0.5, None]
    assert table["answer"].to_list() == ["18", ""]
    assert table["input"][0] == 'a, "b"\nc'
    score = cal.score(path, metrics=["accuracy", "mean(cot_tokens)"])
    assert (score["accuracy"].value, score["mean(cot_tokens)"].value) == (0.5, 65)


def test_no_key_is_ever_written(tmp_path: Path) -> None:
    """Nor where the model repeats it: in a text of a task, or in a row that is refused."""
    experiment = _make_experiment(tasks=6)
    task = experiment["results"][0]["task_results"][2]
    task["model_output"] |= {"answer": f"invalid key {KEY}", "cot_text": f"{KEY} {KEY}"}
    task["prob_correct"] = 1.5  # a bad row
    path = _write(tmp_path / "1.json", experiment)
    out = tmp_path / "out"
    out.mkdir()
    skip = ["--on-bad", "skip", "--bad-rows", str(out / "bad.jsonl")]
    commands = [
        ["score", str(path)],
        ["score", str(path), *skip, "--per-sample", str(out / "rows.jsonl"), "--format", "json"],
        ["convert", str(path), "-o", str(out / "records.jsonl"), "--on-bad", "skip"],
        ["report", str(path), "-o", str(out / "report.html"), "--on-bad", "skip"],
        ["doctor", str(path)],
        ["explain", "accuracy", str(path), "--on-bad", "skip"],
    ]
    for command in commands:
        result = run(*command)
        assert KEY not in result.output + str(result.exception or "")
    assert run(*commands[0]).exit_code == 2
    plain = ["convert", str(path), "-o", str(tmp_path / "p.jsonl"), "--source", "records"]
    assert run(*plain).exit_code == 2
    assert not (tmp_path / "p.jsonl").exists()
    written = list(out.iterdir())
    assert len(written) == 4
    assert "[key]" in (out / "bad.jsonl").read_text(encoding="utf-8")
    assert not any(KEY in each.read_text(encoding="utf-8") for each in written)


@needs_shared_data
@pytest.mark.parametrize("name", ["experiments", "compare_response.json", "export.csv"])
def test_what_its_pipeline_wrote(name: str) -> None:
    whole = json.loads((ZETA / "compare_response.json").read_text(encoding="utf-8"))
    score = cal.score(ZETA / name, by="model")
    for result in whole["results"]:
        group = score.group(model=result["model_configuration"]["model_id"])
        assert group.records == result["total_tasks"]
        for ours in ("accuracy", "brier", "usr", "sce", "total_tokens_mean"):
            assert group.metrics[ours].value == pytest.approx(result["metrics"][ours], abs=1e-12)
