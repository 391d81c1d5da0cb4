"""Models that are there, broken or unavailable: through the public API, with the reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import calipers as cal
from calipers.metrics.similarity.bert_score import _open_cache, _open_embeddings, find_model
from tests.commands import run
from tests.files import write_lines
from tests.metrics.semantic.weights import MODEL, skip_without_model

skip_without_model()

ROWS: list[dict[str, Any]] = [
    {"id": "1", "answer": "a fine red wine", "reference": "a red wine"},
    {"id": "2", "answer": "the film was great", "reference": ["beer", "the movie was excellent"]},
    {"id": "3", "answer": "red wine " * 600, "reference": "a red wine"},
]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test asks the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    _open_embeddings.cache_clear()
    _open_cache.cache_clear()


def semantic(model: object, **options: Any) -> cal.Measured:
    score = cal.score(ROWS, metrics=["semantic_similarity"], semantic_model=str(model), **options)
    return score.groups[0].metrics["semantic_similarity"]


def copied(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in find_model(MODEL).glob("*.*"):
        if path.suffix == ".safetensors":
            (folder / path.name).symlink_to(path)
        elif path.is_file():
            shutil.copy(path, folder)
    return folder


def test_a_package_and_its_folder_give_the_same() -> None:
    by_package, by_folder = semantic(MODEL), semantic(find_model(MODEL))
    assert by_package.value == by_folder.value
    assert by_package.n == 3
    assert by_package.value is not None
    assert 0.5 < by_package.value < 1


def test_the_output_names_the_model_and_counts_what_is_too_long(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", ROWS)
    asked = ("--profile", "agents", "--set", f"semantic_model={MODEL}", "--format", "json")
    result = run("score", path, *asked)
    assert result.exit_code == 0, result.output
    score = json.loads(result.stdout)
    assert score["settings"]["semantic_model"] == MODEL
    assert [notice for notice in score["notices"] if MODEL in notice] == [
        f"semantic_similarity by {MODEL}",
        f"1 record with a text longer than {MODEL} reads: semantic_similarity is by its beginning",
    ]


def test_the_best_of_several_references(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    cal.score(ROWS, metrics=["semantic_similarity"], semantic_model=MODEL, per_sample=path)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["best_reference"] for row in rows] == [0, 1, 0]


def test_a_model_that_is_nowhere() -> None:
    found = semantic("no-such-model-anywhere")
    assert found.value is None
    assert found.reason == (
        "the model no-such-model-anywhere is not on this machine, and HF_HUB_OFFLINE is set: "
        "give its folder, or an installed package that carries it"
    )


@pytest.mark.parametrize("name", ["../nowhere", "a b", "a/b/c", "--", "x" * 5000, "\x00"])
def test_names_that_no_model_can_have(name: str) -> None:
    found = semantic(name)
    assert found.value is None
    assert "Traceback" not in str(found.reason)
    assert str(found.reason).count("\n") == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", b""),
        ("model.safetensors", b"\x80\x04 a pickle"),
        ("config.json", b"{"),
        ("config.json", b'{"model_type": "no-such-type"}'),
        ("config.json", b'{"model_type": "bert", "auto_map": {"AutoModel": "evil.Evil"}}'),
        ("tokenizer.json", b"{}"),
    ],
)
def test_broken_files(name: str, content: bytes, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / name).unlink()
    (folder / name).write_bytes(content)
    found = semantic(folder)
    assert found.value is None
    assert str(found.reason).startswith(f"the model {folder} cannot be used")


def test_code_in_a_model_folder_is_not_run(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"model_type": "evil", "auto_map": {"AutoModel": "evil.E", "AutoConfig": "evil.E"}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "evil.py").write_text("open('was_run', 'w')\nclass E: ...", encoding="utf-8")
    assert semantic(folder).value is None
    assert not Path("was_run").exists()


def test_a_second_run_takes_its_scores_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    fresh = semantic(MODEL, semantic_cache=cache)
    _open_cache.cache_clear()
    _open_embeddings.cache_clear()
    monkeypatch.setattr("calipers.metrics.similarity.bert_score._open_embeddings", None)
    kept = semantic(MODEL, semantic_cache=cache)
    assert kept == fresh
    assert "wine" not in "".join(
        path.read_bytes().decode("latin-1") for path in cache.rglob("*.npy")
    )


def test_a_damaged_cache_is_computed_anew(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    fresh = semantic(MODEL, semantic_cache=cache)
    for path in cache.rglob("*.npy"):
        path.write_bytes(path.read_bytes()[:-3] + b"\x00\x01\x01")
    _open_cache.cache_clear()
    again = semantic(MODEL, semantic_cache=cache)
    assert again.value == pytest.approx(fresh.value, abs=1e-6)


def test_another_model_has_a_cache_of_its_own(tmp_path: Path) -> None:
    folder, cache = copied(tmp_path), tmp_path / "cache"
    semantic(folder, semantic_cache=cache)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}), "utf-8")
    other = tmp_path / "other"
    folder.rename(other)
    semantic(other, semantic_cache=cache)
    assert len(list(cache.iterdir())) == 2


def test_roberta_reads_two_tokens_less_than_it_has_positions() -> None:
    import transformers  # noqa: PLC0415

    from calipers.metrics.similarity.embeddings import _limit  # noqa: PLC0415

    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 9}
    unlimited = SimpleNamespace(model_max_length=int(1e30))
    roberta = transformers.RobertaModel(
        transformers.RobertaConfig(**small, intermediate_size=8, max_position_embeddings=514)
    )
    bert = transformers.BertModel(transformers.BertConfig(**small, intermediate_size=8))
    assert _limit(unlimited, roberta) == 512
    assert _limit(unlimited, bert) == 512
    assert _limit(SimpleNamespace(model_max_length=128), bert) == 128
    assert _limit(unlimited, SimpleNamespace(config=None, named_modules=list)) == 512
