"""What needs no model: where files are looked for, what is kept on disk, how things are batched."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.metrics.similarity.bert_score import (
    _ROW,
    Match,
    ScoreCache,
    _name_file,
    batch_by_size,
    find_model,
    hash_model,
)
from calipers.support.errors import UsageError

SCORES = {("a", "b"): Match(0.25, 0.5, cut=True), ("b", "a"): Match(0.5, 0.25)}


def model_files(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


# --- without the extra ---

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import calipers
rows = [{"answer": "a", "reference": "b"}]
found = calipers.score(rows, metrics=["semantic_similarity"]).groups[0].metrics
assert not {"transformers", "huggingface_hub"} & set(sys.modules)
print(found["semantic_similarity"].value, found["semantic_similarity"].reason)
"""


def test_without_the_extra_there_is_a_reason_and_no_traceback() -> None:
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.stderr == ""
    assert result.stdout == "None the model is an extra: pip install 'calipers[semantic]'\n"


@pytest.mark.parametrize("error", [ImportError("libcudart.so.99: cannot open\nmore"), None])
def test_an_extra_that_cannot_be_loaded_is_told_as_that(
    error: ImportError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error or ModuleNotFoundError("No module named 'transformers'")

    monkeypatch.setattr("calipers.metrics.similarity.bert_score.score_pairs", fail)
    rows = [{"answer": "a", "reference": "b"}]
    found = cal.score(rows, metrics=["semantic_similarity"]).groups[0].metrics
    reason = found["semantic_similarity"].reason
    assert reason == (
        "libcudart.so.99: cannot open"
        if error
        else "the model is an extra: pip install 'calipers[semantic]'"
    )


# --- where a model is ---


def test_a_folder(tmp_path: Path) -> None:
    folder = model_files(tmp_path / "mine")
    assert find_model(str(folder)) == folder.resolve()


@pytest.mark.parametrize("lacking", ["config.json", "model.safetensors"])
def test_a_folder_without_a_model(tmp_path: Path, lacking: str) -> None:
    folder = model_files(tmp_path / "mine")
    (folder / lacking).rename(folder / "pytorch_model.bin")
    with pytest.raises(UsageError, match="holds no model"):
        find_model(str(folder))


def test_a_package_is_found_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_model_v2"
    deep = model_files(package / "a" / "b" / "deeper")
    folder = model_files(package / "model")
    (package / "__init__.py").write_text("raise RuntimeError", encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_model("some-model-v2") == folder
    assert deep.exists()
    assert "some_model_v2" not in sys.modules


@pytest.mark.parametrize("name", ["json", "calipers", "no-such-model-anywhere"])
def test_what_is_nowhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match=f"{name} is not on this machine"):
        find_model(name)


def test_a_digest_is_of_what_the_files_hold(tmp_path: Path) -> None:
    one, same = model_files(tmp_path / "one"), model_files(tmp_path / "same")
    assert hash_model(one) == hash_model(same)
    (same / "tokenizer.json").write_text("{}", encoding="utf-8")
    assert hash_model(one) != hash_model(same)


# --- scores on disk ---


def test_scores_come_back_as_they_were(tmp_path: Path) -> None:
    ScoreCache(tmp_path, "model").add(SCORES)
    again = ScoreCache(tmp_path, "model")
    assert again.find_known([*SCORES, ("a", "c"), ("ab", "")]) == SCORES
    assert ScoreCache(tmp_path, "other").find_known(SCORES) == {}


@given(st.text(), st.text(), st.text(), st.text())
def test_pairs_are_not_mistaken_for_one_another(a: str, b: str, c: str, d: str) -> None:
    cache = ScoreCache(Path("/dev/null/nowhere"), "model")
    cache.add({(a, b): Match(0.5, 0.5)})
    assert bool(cache.find_known([(c, d)])) == ((a, b) == (c, d))


def _rows(dtype: object) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(2, dtype=dtype))  # type: ignore[call-overload]
    return buffer.getvalue()


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01", b"\x80\x04.", _rows("f8")])
def test_what_is_no_file_of_ours_is_dropped(content: bytes, tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path, "model")
    cache.add(SCORES)
    stray = cache.folder / f"{_name_file(content)}.npy"
    stray.write_bytes(content)
    assert ScoreCache(tmp_path, "model").find_known(SCORES) == SCORES
    assert not stray.exists()


def test_every_damaged_byte_is_seen(tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path, "model")
    cache.add(SCORES)
    [path] = cache.folder.iterdir()
    content = path.read_bytes()
    for at in (0, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert ScoreCache(tmp_path, "model").find_known(SCORES) == {}
        assert not path.exists()


def test_pickles_are_never_read(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    folder = ScoreCache(tmp_path, "model").folder
    folder.mkdir()
    stray = folder / f"{_name_file(buffer.getvalue())}.npy"
    stray.write_bytes(buffer.getvalue())
    assert ScoreCache(tmp_path, "model").find_known(SCORES) == {}
    assert not stray.exists()


def test_many_files_become_one_and_nothing_is_lost(tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path, "model")
    scores = {(str(n), "x"): Match(n / 128, 1.0) for n in range(100)}
    for pair, match in scores.items():
        cache.add({pair: match})
    assert len(list(cache.folder.iterdir())) <= 33
    assert ScoreCache(tmp_path, "model").find_known(scores) == scores


def test_two_runs_add_to_one_cache(tmp_path: Path) -> None:
    one, two = ScoreCache(tmp_path, "model"), ScoreCache(tmp_path, "model")
    one.add({("a", "b"): Match(0.5, 0.5)})
    two.add({("c", "d"): Match(0.25, 0.5)})
    assert len(ScoreCache(tmp_path, "model").find_known([("a", "b"), ("c", "d")])) == 2


def test_a_row_takes_a_few_bytes() -> None:
    assert _ROW.itemsize == 25


@pytest.mark.parametrize("kind", ["file", "below a file"])
def test_a_cache_that_cannot_be_written_is_a_usage_error(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="--set semantic_cache"):
        cal.score([{"answer": "a"}], semantic_cache=path if kind == "file" else path / "folder")


# --- batches ---


@given(st.lists(st.tuples(st.integers(1, 600), st.integers(1, 600))), st.integers(1, 1_000_000))
def test_batches_hold_everything_once_and_stay_within_the_budget(
    shapes: list[tuple[int, int]], budget: int
) -> None:
    most = budget // 4
    batches = list(batch_by_size(shapes, lambda shape: shape, lambda a, b: a * b, budget, most))
    assert sorted(each for batch in batches for each in batch) == sorted(shapes)
    for batch in batches:
        height, width = (max(side) for side in zip(*batch, strict=True))
        room = len(batch) * height * width
        assert len(batch) == 1 or room <= budget
        assert room - sum(a * b for a, b in batch) <= most
