"""A model's tokenizer instead of white space."""

from __future__ import annotations

from pathlib import Path

import pytest

import calipers as cal

tokenizers = pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """A tokenizer that knows single letters: as many tokens as characters that are no space."""
    model = tokenizers.models.WordLevel(
        {letter: n for n, letter in enumerate("abc?")}, unk_token="?"
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.WhitespaceSplit(),
            tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated"),
        ]
    )
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def test_a_tokenizer_file_counts_tokens(letters: Path) -> None:
    rows = [
        {"cot": "ab c", "answer": "aa"},
        {"cot": None, "answer": "a"},
        {"cot": "", "answer": ""},
    ]
    score = cal.score(rows, tokenizer=str(letters))
    metrics = score.groups[0].metrics
    assert metrics["cot_tokens_mean"].value == 1.5
    assert metrics["cot_tokens_mean"].n == 2
    assert metrics["ra_ratio_mean"].value == 0.75
    assert score.settings["tokenizer"] == str(letters)


def test_a_tokenizer_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}", encoding="utf-8")
    with pytest.raises(cal.UsageError, match="cannot be loaded"):
        cal.score([{"cot": "a"}], tokenizer=str(broken))
