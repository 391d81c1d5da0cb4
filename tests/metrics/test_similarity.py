"""Similarity through the public API and the command line: parts, references, thresholds, bad input."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.metrics.similarity.bert_score import _open_embeddings
from calipers.support.errors import MissingExtraError
from tests.commands import run
from tests.files import write_lines
from tests.shared_data import FOLDER, expected, needs_shared_data

PAIR: dict[str, Any] = {"id": "1", "answer": "a fine red wine", "reference": "a red wine"}
Pairs = Sequence[tuple[str, str]]
Scorer = Callable[[Pairs], list[float]]


def agents(rows: Any, **options: Any) -> cal.Group:
    [group] = cal.score(rows, profile="agents", **options).groups
    return group


def sample(rows: Any, tmp_path: Path, **options: Any) -> list[dict[str, Any]]:
    """The per-sample values."""
    path = tmp_path / "samples.jsonl"
    cal.score(rows, profile="agents", per_sample=path, **options)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(autouse=True)
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about what holds without the extra, also where it is installed."""
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("embeddings", "matching", "model"):
        monkeypatch.delitem(
            sys.modules, f"calipers.metrics.similarity.bert_score.{name}", raising=False
        )


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scorer], list[Pairs]]:
    """Put a scorer in the place of the neural model; the batches it is asked for are kept."""

    def install(scorer: Scorer) -> list[Pairs]:
        asked: list[Pairs] = []

        def score_pairs(pairs: Pairs, *, model: str, cache: Any) -> list[SimpleNamespace]:
            del model, cache
            asked.append(pairs)
            return [SimpleNamespace(f1=score, cut=False) for score in scorer(pairs)]

        module = ModuleType("calipers.metrics.similarity.bert_score")
        module.score_pairs = score_pairs  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "calipers.metrics.similarity.bert_score", module)
        return asked

    return install


# --- the parts ---


def test_the_parts_of_output_similarity(model: Any) -> None:
    model(lambda pairs: [0.9] * len(pairs))
    metrics = agents([PAIR]).metrics
    cosine, jaccard = (metrics[f"{name}_similarity"].value for name in ("cosine", "jaccard"))
    assert jaccard == 3 / 4
    assert cosine is not None
    expected_value = 0.5 * 0.9 + 0.3 * cosine + 0.2 * jaccard
    assert metrics["output_similarity"].value == pytest.approx(expected_value, rel=1e-12)
    assert metrics["task_success"].value == float(expected_value >= 0.8)


def test_equal_texts_are_1_and_succeed_whatever_the_threshold(model: Any) -> None:
    model(lambda pairs: [1.0] * len(pairs))
    row = {"answer": "the same", "reference": "the same"}
    metrics = agents([row], success_threshold=1).metrics
    assert metrics["output_similarity"].value == 1
    assert metrics["task_success"].value == 1


def test_intervals() -> None:
    rows = [PAIR | {"id": str(n), "answer": "red wine " * (n + 1)} for n in range(9)]
    metrics = agents(rows, semantic_model="lexical", success_threshold=0.7).metrics
    for name in ("cosine_similarity", "jaccard_similarity", "output_similarity"):
        assert metrics[name].interval in ("logit t", None), name
    assert metrics["task_success"].interval == "wilson"


@pytest.mark.parametrize(
    ("row", "score"),
    [
        ({"duration_seconds": 0}, 1),
        ({"duration_seconds": 0.3678794411714423}, 1),  # P's pole
        ({"duration_seconds": 1}, 1),
        ({"duration_seconds": 10}, 0.30279310656411385),
        ({"latency_ms": 10_000}, 0.30279310656411385),
        ({"duration_seconds": 1, "latency_ms": 10_000}, 1),
        ({"duration_seconds": None, "latency_ms": 10_000}, 0.30279310656411385),
    ],
)
def test_time_score(row: dict[str, Any], score: float) -> None:
    assert agents([row]).metrics["time_score"].value == pytest.approx(score, rel=1e-12)


# --- the model ---


@pytest.fixture
def _without_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The extra is absent, although this environment may have it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "calipers.metrics.similarity.embeddings", raising=False)
    _open_embeddings.cache_clear()
    yield
    _open_embeddings.cache_clear()


@pytest.mark.usefixtures("_without_torch")
def test_without_the_extra_the_reason_says_what_to_install() -> None:
    metrics = agents([PAIR, {"id": "2"}]).metrics
    found = metrics["semantic_similarity"]
    assert (found.value, found.n, found.missing) == (None, 0, 2)
    for name in ("semantic_similarity", "output_similarity", "task_success"):
        assert "pip install 'calipers[semantic]'" in str(metrics[name].reason)
    for name in ("output_similarity", "task_success"):
        assert "--set missing=renormalize" in str(metrics[name].reason)
    assert metrics["cosine_similarity"].value is not None


@pytest.mark.parametrize(
    "error",
    [
        OSError("cannot reach the hub\nfor long"),
        RuntimeError("cannot reach the hub"),
        MissingExtraError("cannot reach the hub", extra="semantic"),
    ],
)
def test_weights_out_of_reach_are_tried_once_and_told(error: Exception, model: Any) -> None:
    def fail(_: Pairs) -> list[float]:
        raise error

    asked = model(fail)
    rows = [PAIR | {"reference": ["a red wine", "wine"]}, PAIR | {"id": "2"}]
    found = agents(rows).metrics["semantic_similarity"]
    assert found.value is None
    assert str(found.reason).startswith("cannot reach the hub")
    assert "for long" not in str(found.reason)
    assert len(asked) == 1
    agents(rows)
    assert len(asked) == 2  # a run tries again


def test_the_model_sees_whole_batches(model: Any) -> None:
    asked = model(lambda pairs: [0.5] * len(pairs))
    rows = [PAIR | {"id": str(n)} for n in range(50)]
    rows += [PAIR | {"id": f"x{n}", "reference": ["wine", "beer"]} for n in range(10)]
    assert agents(rows).metrics["semantic_similarity"].n == 60
    assert sorted(map(len, asked)) == [20, 50]


def test_the_model_is_not_asked_where_nobody_needs_it(model: Any) -> None:
    asked = model(lambda pairs: [0.5] * len(pairs))
    cal.score([PAIR], metrics=["cosine_similarity", "jaccard_similarity"])
    assert asked == []


def test_a_score_that_is_no_number_is_null(model: Any) -> None:
    model(lambda pairs: [float("nan"), 0.5][: len(pairs)])
    found = agents([PAIR, PAIR | {"id": "2"}]).metrics["semantic_similarity"]
    assert (found.value, found.n, found.missing) == (0.5, 1, 1)


def test_the_output_names_the_model_and_the_stand_in(tmp_path: Path, model: Any) -> None:
    path = write_lines(tmp_path / "a.jsonl", [PAIR])
    plain = run(
        "score", path, "--profile", "agents", "--semantic-model", "lexical", "--format", "json"
    )
    score = json.loads(plain.stdout)
    assert score["settings"]["semantic_model"] == "lexical"
    stand_in = "semantic_similarity by the stand-in lexical, which matches words, not meanings"
    assert stand_in in score["notices"]
    assert "note: semantic_similarity by the stand-in lexical" in plain.stderr
    model(lambda pairs: [0.5] * len(pairs))
    score = json.loads(run("score", path, "--profile", "agents", "--format", "json").stdout)
    assert "semantic_similarity by distilbert-base-uncased" in score["notices"]


def test_renormalized_parts_are_told() -> None:
    score = cal.score([PAIR], profile="agents", missing="renormalize")
    metrics = score.groups[0].metrics
    cosine, jaccard = (metrics[f"{name}_similarity"].value for name in ("cosine", "jaccard"))
    assert cosine is not None
    assert jaccard is not None
    value = 0.6 * cosine + 0.4 * jaccard
    assert metrics["output_similarity"].value == pytest.approx(value, rel=1e-12)
    assert metrics["semantic_similarity"].value is None
    told = "output_similarity of 1 record without its semantic part, by cosine and Jaccard"
    assert told in score.notices
    assert score.settings["missing"] == "renormalize"


# --- several references ---


def test_the_best_reference_is_named_and_every_part_is_of_it(tmp_path: Path) -> None:
    row = PAIR | {"reference": ["a beer", "a fine red wine", "a red wine"]}
    [found] = sample([row], tmp_path)
    assert found["best_reference"] == 1
    assert found["cosine_similarity"] == pytest.approx(1)
    assert found["jaccard_similarity"] == 1


def test_best_is_by_output_similarity_meaning_included(tmp_path: Path, model: Any) -> None:
    meant = {"a red wine": 0.2, "ein feiner Rotwein": 0.99}
    model(lambda pairs: [meant[reference] for _, reference in pairs])
    row = PAIR | {"answer": "a fine bottle", "reference": list(meant)}
    [found] = sample([row], tmp_path)
    assert found["best_reference"] == 1
    assert found["semantic_similarity"] == 0.99
    assert found["jaccard_similarity"] == 0
    assert found["output_similarity"] == pytest.approx(0.495)


def test_of_equal_references_the_first(tmp_path: Path) -> None:
    [found] = sample([PAIR | {"reference": ["x", "red wine", "red wine", "wine red"]}], tmp_path)
    assert found["best_reference"] == 1


@pytest.mark.parametrize("text", ["[1] Smith", "[1, 2]", "[]", '["a", 1]', '["open', "[" * 5000])
def test_a_text_that_is_no_list_of_texts_is_one_reference(text: str, tmp_path: Path) -> None:
    row = {"id": "1", "answer": text, "reference": text}
    [found] = sample([row], tmp_path)
    assert (found["best_reference"], found["jaccard_similarity"]) == (0, 1)


def test_a_list_in_a_csv_cell_and_in_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,answer,reference\n1,red wine,"[""beer"", ""red wine""]"\n')
    assert agents(path).metrics["jaccard_similarity"].value == 1
    table = pl.DataFrame({"id": ["1"], "answer": ["red wine"], "reference": [["beer", "red wine"]]})
    assert agents(table).metrics["jaccard_similarity"].value == 1
    table.write_parquet(tmp_path / "a.parquet")
    assert agents(tmp_path / "a.parquet").metrics["jaccard_similarity"].value == 1


# --- bad input ---


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("[]", "an empty list, not a text or a list of texts"),
        ('["a", null]', "null in the list is not text"),
        ('["a", 1]', "1 in the list is not text"),
        ('{"a": 1}', '{"a": 1} is an object, not a text or a list of texts'),
    ],
)
def test_a_bad_reference_names_file_row_and_field(value: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"answer": "a", "gold": "b"}}\n{{"answer": "a", "gold": {value}}}\n')
    refused = run("score", path, "--map", "reference=gold")
    assert refused.exit_code == 2
    assert f"{path}:2: gold: {problem}" in refused.stderr
    skipped = run("score", path, "--map", "reference=gold", "--on-bad", "skip")
    assert skipped.exit_code == 0
    table = [{"answer": "a", "reference": json.loads(value)}]
    with pytest.raises(cal.DataError, match="<records>:1: reference: "):
        cal.score(table)
    frame = pl.DataFrame({"reference": [["a"], []]})
    with pytest.raises(cal.DataError, match="<table>:2: reference: an empty list"):
        cal.score(frame)


def test_rows_without_texts_are_missing_and_failed_calls_errors() -> None:
    rows = [
        PAIR,
        {"id": "2", "answer": "x"},
        {"id": "3", "reference": "x"},
        {"id": "4", "answer": float("nan"), "reference": "x"},
        {"id": "5", "answer": "x", "reference": float("nan")},
        PAIR | {"id": "6", "error": "timeout: 60 s"},
    ]
    group = agents(rows, semantic_model="lexical")
    for name in ("cosine_similarity", "output_similarity", "task_success"):
        found = group.metrics[name]
        assert (found.n, found.missing, group.errors) == (1, 4, 1), name


def test_empty_texts() -> None:
    both = agents([{"answer": "", "reference": ""}], semantic_model="lexical").metrics
    one = agents([{"answer": "", "reference": "wine"}], semantic_model="lexical").metrics
    for name in ("cosine_similarity", "jaccard_similarity", "output_similarity"):
        assert (both[name].value, one[name].value) == (1, 0), name


def test_texts_of_a_megabyte(tmp_path: Path) -> None:
    long = "wörd " * 200_000
    path = write_lines(tmp_path / "a.jsonl", [{"answer": long, "reference": [long, "wörd"]}])
    metrics = agents(path, semantic_model="lexical").metrics
    assert metrics["output_similarity"].value == pytest.approx(1)


# --- the threshold ---

PEOPLE: list[dict[str, Any]] = [
    {"text1": "red wine", "text2": "red wine"},
    {"text1": "red wine", "text2": "white beer"},
    {"text1": "fine red wine", "text2": "red wine"},
    {"text1": None, "text2": "red wine"},
]


def test_a_threshold_from_pairs_of_people(tmp_path: Path) -> None:
    pairs = write_lines(tmp_path / "pairs.jsonl", PEOPLE)
    alike = [
        agents([{"answer": row["text1"], "reference": row["text2"]}], semantic_model="lexical")
        .metrics["output_similarity"]
        .value
        for row in PEOPLE[:3]
    ]
    path = write_lines(tmp_path / "a.jsonl", [PAIR])
    options = ("--profile", "agents", "--semantic-model", "lexical", "--format", "json")
    for quantile, value in (
        ("0", 0),
        ("0.34", alike[2]),
        ("0.5", alike[2]),
        ("2/3", alike[2]),
        ("1", 1),
    ):
        result = run("score", path, *options, "--success-threshold", f"{pairs}:{quantile}")
        assert result.exit_code == 0, result.stderr
        score = json.loads(result.stdout)
        assert score["settings"]["success_threshold"] == value
        source = f"quantile {quantile} of the output similarity of 3 pairs in {pairs}, 1 left out"
        assert score["settings"]["threshold_from"] == source
        assert f"task_success from {value:.4g} on: {source}" in score["notices"]
    assert score["groups"][0]["metrics"]["task_success"]["value"] == 0


@pytest.mark.parametrize("names", [("answer", "reference"), ("a", "b")])
def test_pairs_may_be_named_as_the_records_are(names: tuple[str, str], tmp_path: Path) -> None:
    people = [dict(zip(names, ("red wine", "red"), strict=True))]
    pairs = write_lines(tmp_path / "pairs.jsonl", people)
    records = [dict(zip(names, ("red wine", "red"), strict=True))]
    found = agents(
        records,
        map={"answer": names[0], "reference": names[1]},
        semantic_model="lexical",
        success_threshold=f"{pairs}:0.5",
    )
    assert found.metrics["task_success"].value == 1


@pytest.mark.usefixtures("_without_torch")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("high", "neither a number nor FILE:Q"),
        ("1.5", "outside [0, 1]"),
        ("nan", "outside [0, 1]"),
        ("-0.1", "outside [0, 1]"),
        ("{pairs}", "neither a number nor FILE:Q"),
        ("{pairs}:", "nothing is not a quantile"),
        ("{pairs}:1.5", "1.5 is not a quantile"),
        ("{pairs}:1/0", "1/0 is not a quantile"),
        ("{pairs}:half", "half is not a quantile"),
        ("{pairs}.gone:0.5", "no such file"),
        ("{other}:0.5", "no pairs of texts"),
        ("{empty}:0.5", "no pairs of texts"),
        ("{bad}:0.5", "text2: an empty list"),
        ("{pairs}:0.5", "no pair has an output similarity: the model is an extra"),
    ],
)
def test_a_threshold_that_makes_no_sense(given: str, says: str, tmp_path: Path) -> None:
    files = {
        "pairs": write_lines(tmp_path / "pairs.jsonl", PEOPLE),
        "other": write_lines(tmp_path / "other.jsonl", [{"text1": "a"}]),
        "empty": write_lines(tmp_path / "empty.jsonl", []),
        "bad": write_lines(tmp_path / "bad.jsonl", [{"text1": "a", "text2": []}]),
    }
    path = write_lines(tmp_path / "a.jsonl", [PAIR])
    refused = run("score", path, "--success-threshold", given.format(**files))
    assert refused.exit_code == 2
    assert says in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize(
    "option", [("--missing", "drop"), ("--semantic-model", ""), ("--success-threshold", "")]
)
def test_other_settings_that_make_no_sense(option: tuple[str, str], tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [PAIR])
    assert run("score", path, *option).exit_code == 2
    if option[0] == "--missing":
        with pytest.raises(cal.UsageError, match="zero or renormalize"):
            cal.score([PAIR], missing="drop")  # type: ignore[arg-type]


# --- people ---


@needs_shared_data
def test_reviews_by_people_are_far_below_the_default_threshold() -> None:
    path = FOLDER / "reviews/peerread_review_pairs.jsonl"
    names = {"id": "pair_id", "answer": "text1", "reference": "text2"}
    figures = expected()["reviews"]
    metrics = agents(path, map=names, missing="renormalize").metrics
    assert metrics["jaccard_similarity"].n == figures["n_pairs"]
    assert metrics["jaccard_similarity"].value == pytest.approx(figures["jaccard_mean"], rel=1e-9)
    assert metrics["task_success"].value == 0
    half = agents(path, map=names, missing="renormalize", success_threshold=f"{path}:0.5")
    assert half.metrics["task_success"].value == pytest.approx(0.5, abs=0.01)
