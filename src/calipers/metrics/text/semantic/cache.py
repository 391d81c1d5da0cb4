"""Scores of pairs on disk, so that a second run asks the model only for what is new.

A folder per model, named by the content of its files; in it files of scores, each named by its
own content: a damaged one no longer fits its name, is dropped, and its scores are computed again.
Texts are not kept, only their hashes.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.format import read_array

from calipers.support.cache import DiskCache

VERSION = 1  # of the computation: another version has another folder

_KEY_BYTES, _NAME_BYTES = 16, 16
_ROW = np.dtype([("key", f"V{_KEY_BYTES}"), ("precision", "<f4"), ("recall", "<f4"), ("cut", "?")])
_MOST_FILES = 32


Pair = tuple[str, str]  # answer and reference


class Match(NamedTuple):
    """How far each side of a pair is found in the other."""

    precision: float
    recall: float
    cut: bool = False  # whether only the beginning of a text took part

    @property
    def f1(self) -> float:
        """The harmonic mean; 0 where nothing was found.

        >>> Match(0.5, 1.0).f1
        0.6666666666666666
        """
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


class ScoreCache:
    """The scores by one model."""

    def __init__(self, folder: Path, model: str) -> None:
        place = folder / f"v{VERSION}-{model[:32]}"
        self._cache = DiskCache(place, suffix=".npy", spread=False)
        self._scores: dict[bytes, Match] = {}
        self._files: list[str] = []
        for name, content in self._cache.read_entries():
            self._read(name, content)

    @property
    def folder(self) -> Path:
        """Where the scores are kept."""
        return self._cache.folder

    def find_known(self, pairs: Iterable[Pair]) -> dict[Pair, Match]:
        """Return the scores that are in the cache."""
        asked = {pair: _hash_pair(pair) for pair in pairs}
        return {pair: self._scores[key] for pair, key in asked.items() if key in self._scores}

    def add(self, scores: Mapping[Pair, Match]) -> None:
        """Store further scores; on a full disk they are just not cached."""
        new = {_hash_pair(pair): match for pair, match in scores.items()}
        self._scores |= new
        self._write(new)
        if len(self._files) > _MOST_FILES:
            self._merge()

    def _read(self, name: str, content: bytes) -> None:
        try:
            rows = _read_rows(content, name)
        except ValueError:
            self._cache.drop(name)
            return
        self._scores |= {key: Match(*match) for key, *match in rows.tolist()}
        self._files.append(name)

    def _write(self, scores: Mapping[bytes, Match]) -> None:
        rows = np.array([(key, *match) for key, match in scores.items()], dtype=_ROW)
        buffer = io.BytesIO()
        np.save(buffer, rows, allow_pickle=False)
        name = _name_file(buffer.getvalue())
        self._cache.keep(name, buffer.getvalue())
        self._files.append(name)

    def _merge(self) -> None:
        """Merge many files into one."""
        old, self._files = self._files, []
        self._write(self._scores)
        for name in set(old) - set(self._files):
            self._cache.drop(name)


def _read_rows(content: bytes, name: str) -> np.ndarray[Any, Any]:
    if name != _name_file(content):
        raise ValueError("damaged")
    rows = read_array(io.BytesIO(content), allow_pickle=False)
    if rows.dtype != _ROW:
        raise ValueError("not ours")
    return np.atleast_1d(rows)


def _hash_pair(pair: Pair) -> bytes:
    """Return the key of a pair; with a length, so that ("ab", "c") differs from ("a", "bc")."""
    first, second = (text.encode("utf-8", "surrogatepass") for text in pair)
    digest = blake2b(len(first).to_bytes(8, "little"), digest_size=_KEY_BYTES)
    digest.update(first)
    digest.update(second)
    return digest.digest()


def _name_file(content: bytes) -> str:
    return blake2b(content, digest_size=_NAME_BYTES).hexdigest()
