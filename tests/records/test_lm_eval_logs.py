"""Samples of lm-evaluation-harness: filters, likelihoods, and which metric decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.commands import run
from tests.records.log_files import (
    make_lm_eval_line,
    write_texts,
)


def test_a_document_counts_once_however_many_filters_there_are(tmp_path: Path) -> None:
    lines = [
        make_lm_eval_line(n, of, float(n == of_right))
        for n in (1, 2, 3)
        for of, of_right in (("strict", 1), ("flexible", 2))
    ]
    path = write_texts(tmp_path / "samples_sums_2025-09-09T13-31-53.431753.jsonl", *lines)
    write_texts(
        tmp_path / "results_2025-09-09T13-31-53.431753.json",
        {"model_name": "tiny", "results": {}, "lm_eval_version": "0.4.9"},
    )
    result = cal.score(path, by="model", metrics=["accuracy"])
    assert result.groups[0].by == {"model": "tiny"}
    assert result.groups[0].records == 3
    assert any("3 lines of other filters" in notice for notice in result.notices)
    both = cal.score(path, by="filter", metrics=["accuracy"])
    assert {group.by["filter"]: group.records for group in both.groups} == {
        "strict": 3,
        "flexible": 3,
    }


def test_likelihoods_give_the_answer_and_its_confidence(tmp_path: Path) -> None:
    replies = [[-1.0, False], [0.0, True], [-1.0, False]]
    line = make_lm_eval_line(
        1,
        filtered_resps=replies,
        resps=[[each] for each in replies],
        target=1,
        metrics=["acc"],
        acc=1.0,
    )
    [record] = cal.read(write_texts(tmp_path / "samples.jsonl", line)).to_dicts()
    assert (record["answer"], record["target"], record["correct"]) == ("1", "1", True)
    assert record["prob_correct"] == pytest.approx(1 / (1 + 2 * 2.718281828459045**-1))


def test_the_likelihood_of_a_single_text_is_no_answer(tmp_path: Path) -> None:
    replies = [["-1.5", "True"]]
    line = make_lm_eval_line(1, filtered_resps=replies, resps=[replies], metrics=["acc"], acc=1.0)
    [record] = cal.read(write_texts(tmp_path / "samples.jsonl", line)).to_dicts()
    assert record["correct"] is True
    assert not {"answer", "cot", "prob_correct"} & record.keys()


def test_the_likelihood_of_a_whole_document_is_no_answer(tmp_path: Path) -> None:
    line = make_lm_eval_line(
        1,
        arguments={"gen_args_0": {"arg_0": "Once"}},
        resps=[["-9.5"]],
        filtered_resps=["-9.5"],
        metrics=["word_perplexity"],
        word_perplexity=[-9.5, 3],
    )
    [record] = cal.read(write_texts(tmp_path / "samples.jsonl", line)).to_dicts()
    assert not {"answer", "correct", "target"} & record.keys()
    assert record["expected"] == "4"


def test_choices_asked_with_and_without_their_question_are_as_many_as_they_are(
    tmp_path: Path,
) -> None:
    replies = [[-2.0, False], [-1.0, False], [0.0, True], [-3.0, False]]
    line = make_lm_eval_line(
        1,
        filtered_resps=replies,
        metrics=["acc", "acc_mutual_info"],
        acc=1.0,
        acc_mutual_info=0.0,
    )
    [record] = cal.read(write_texts(tmp_path / "samples.jsonl", line)).to_dicts()
    assert record["answer"] == "1"
    assert record["prob_correct"] == pytest.approx(1 / (1 + 2.718281828459045**-1))


def test_one_metric_decides_in_a_whole_file_of_lm_eval(tmp_path: Path) -> None:
    metrics = ["bleu", "strict"]
    lines = [
        make_lm_eval_line(number, metrics=metrics, bleu=bleu, strict=strict)
        for number, (bleu, strict) in enumerate([(0.0, True), (0.3, False), (0.0, None)])
    ]
    table = cal.read(write_texts(tmp_path / "samples.jsonl", *lines))
    assert table["correct"].to_list() == [True, False, None]
    assert table["score_strict"].to_list() == [True, False, None]


def test_texts_that_lm_eval_measured_otherwise_are_not_compared(tmp_path: Path) -> None:
    lines = [make_lm_eval_line(n, metrics=["bleu"], bleu=bleu) for n, bleu in enumerate((0.0, 0.3))]
    result = cal.score(write_texts(tmp_path / "samples.jsonl", *lines))
    assert "accuracy" not in result.groups[0].metrics


def test_answers_that_lm_eval_only_predicted_are_compared(tmp_path: Path) -> None:
    line = make_lm_eval_line(1, metrics=["bypass"], bypass=999)
    path = write_texts(tmp_path / "samples.jsonl", line)
    assert "score_bypass" not in cal.read(path).columns
    assert cal.score(path).groups[0].metrics["accuracy"].value == 1


def test_samples_of_old_versions_do_not_list_their_metrics(tmp_path: Path) -> None:
    line = make_lm_eval_line(1, right=0.0)
    del line["metrics"]
    table = cal.read(write_texts(tmp_path / "samples.jsonl", line))
    assert (table["correct"][0], table["score_exact_match"][0]) == (False, 0)


def test_results_may_have_any_name_of_the_same_time(tmp_path: Path) -> None:
    time = "2025-09-09T13-31-53.431753"
    path = write_texts(tmp_path / f"samples_sums_{time}.jsonl", make_lm_eval_line(1))
    write_texts(tmp_path / f"mine_{time}.json", {"model_name": "tiny"})
    assert cal.read(path)["model"].to_list() == ["tiny"]


def test_results_without_samples_say_what_to_do(tmp_path: Path) -> None:
    path = write_texts(
        tmp_path / "results.json", {"results": {}, "lm_eval_version": "0.4"}, indent=1
    )
    result = run("score", path)
    assert result.exit_code == 2
    assert "--log_samples" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        {"gen_args_0": {"arg_0": "Q: 2 + 2?", "arg_1": {}}},
        [["Q: 2 + 2?", {}]],
        {"gen_args_0": {"arg_0": [{"role": "user", "content": "Q: 2 + 2?"}], "arg_1": {}}},
        {"gen_args_0": {"arg_0": '[{"role": "user", "content": "Q: 2 + 2?"}]', "arg_1": {}}},
    ],
    ids=["named", "listed", "messages", "messages as text"],
)
def test_the_question_of_lm_eval_may_be_only_in_its_arguments(
    tmp_path: Path, arguments: Any
) -> None:
    line = {**make_lm_eval_line(1), "doc": {"passage": "…"}, "arguments": arguments}
    table = cal.read(write_texts(tmp_path / "samples_x_2025-01-01T00-00-00.0.jsonl", line))
    assert table["input"].to_list() == ["Q: 2 + 2?"]


TIME = "2026-11-17T13-31-53.431753"


def test_a_fraction_after_a_thousand_documents_still_decides_nothing(tmp_path: Path) -> None:
    rights = [1.0] * 1_200 + [0.5]
    for values in (rights, rights[::-1]):
        lines = [make_lm_eval_line(n, right=value) for n, value in enumerate(values)]
        metrics = cal.score(write_texts(tmp_path / "samples.jsonl", *lines)).groups[0].metrics
        assert "accuracy" not in metrics
        assert metrics["score_exact_match"].value == pytest.approx(1_200.5 / 1_201)


def test_the_results_beside_the_samples_stand_beside_ours(tmp_path: Path) -> None:
    lines = [make_lm_eval_line(n, right=float(n < 3), f1=0.5) for n in range(4)]
    for line in lines:
        line["metrics"] = ["exact_match", "f1"]
    stated = {"alias": "sums", "exact_match,strict": 0.75, "exact_match_stderr,strict": 0.25}
    results = {"sums": {**stated, "f1,strict": 0.6, "exact_match,flexible": 1.0}}
    counts = {"n-samples": {"sums": {"original": 1319, "effective": 100}}}
    path = write_texts(tmp_path / f"samples_sums_{TIME}.jsonl", *lines)
    about = {"model_name": "llama3", "lm_eval_version": "0.4.13"}
    write_texts(tmp_path / f"results_{TIME}.json", {**about, "results": results, **counts})
    score = cal.score(path)
    assert [(each.name, each.ours, each.equal) for each in score.inputs[0].stated] == [
        ("sums/exact_match,strict", "accuracy", True),
        ("sums/exact_match_stderr,strict", None, None),
        ("sums/f1,strict", "score_f1", False),
        ("sums/exact_match,flexible", None, None),
    ]
    assert any("sums/f1,strict 0.6, score_f1 is 0.5 here" in each for each in score.notices)
    assert any("it is of 100 samples, ours of 4" in each for each in score.notices)
    more = [make_lm_eval_line(n, "flexible") for n in range(4)]
    write_texts(path, *lines, *more)
    by_filter = cal.score(path, by="filter")
    assert len(by_filter.groups) == 2
    assert not any("left out" in each for each in by_filter.notices)


def test_repeats_are_runs(tmp_path: Path) -> None:
    replies = ["4", "5", "4"]
    lines = [
        make_lm_eval_line(n, resps=[replies], filtered_resps=["4"], right=1.0) for n in range(2)
    ]
    path = write_texts(tmp_path / "samples.jsonl", *lines)
    table = cal.read(path)
    assert table["run"].to_list() == [1, 2, 3] * 2
    assert table["answer"].to_list() == replies * 2
    assert table["correct"].to_list() == [True, None, None] * 2
    metrics = cal.score(path).groups[0].metrics
    assert (metrics["accuracy"].value, metrics["accuracy"].n) == (1.0, 2)
    assert metrics["determinism_index"].value == pytest.approx(2 / 3)
    extracted = [make_lm_eval_line(1, resps=[["So 4", "So 5"]], filtered_resps=["4"])]
    table = cal.read(write_texts(tmp_path / "samples.jsonl", *extracted))
    assert table["answer"].to_list() == ["4", None]
    assert table["cot"].to_list() == ["So 4", "So 5"]
