"""The disk cache: shared by processes, never in the way, and never too large."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calipers.support.files import DiskCache, hash_key

KEY = hash_key({"model": "m"}, "prompt", 1)


def test_what_is_kept_is_found_by_others(tmp_path: Path) -> None:
    DiskCache(tmp_path).keep(KEY, b"content")
    assert DiskCache(tmp_path).find(KEY, bytes) == b"content"
    assert DiskCache(tmp_path).find(hash_key("other"), bytes) is None
    [file] = tmp_path.rglob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_key_depends_on_all_that_was_asked() -> None:
    assert hash_key({"a": 1, "b": 2}, "x") == hash_key({"b": 2, "a": 1}, "x")
    assert len({hash_key("x"), hash_key("x", None), hash_key(["x"]), hash_key("x", 1)}) == 4


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe"])
def test_a_damaged_entry_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    cache = DiskCache(tmp_path)
    cache.keep(KEY, b"1")
    next(tmp_path.rglob("*.json")).write_bytes(content)
    assert cache.find(KEY, int) is None
    cache.keep(KEY, b"2")
    assert cache.find(KEY, int) == 2


def test_a_folder_that_cannot_be_written_to_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[str] = []
    cache = DiskCache(tmp_path / "file", what="replies", say=told.append)
    cache.keep(KEY, b"1")
    cache.keep(hash_key("other"), b"2")
    assert cache.find(KEY, bytes) is None
    assert list(cache.read_entries()) == []
    assert len(told) == 1
    assert "replies are not kept in this cache" in told[0]


def test_many_may_write_and_read_the_same_entry(tmp_path: Path) -> None:
    def work(number: int) -> bytes | None:
        cache = DiskCache(tmp_path)
        cache.keep(KEY, bytes([number]) * 10_000)
        return cache.find(KEY, bytes)

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(work, range(64)):
            assert found is not None
            assert found == found[:1] * 10_000
    assert len(list(tmp_path.rglob("*"))) == 2  # the folder and the file: nothing half-written


def test_beyond_the_limit_the_longest_unused_go(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    keys = [hash_key(number) for number in range(10)]
    for place, key in enumerate(keys):
        cache.keep(key, b"x" * 100)
        os.utime(next(tmp_path.rglob(f"{key}.json")), (place, place))
    assert cache.find(keys[0], bytes)  # used now
    cache.sweep(most_bytes=350)
    kept = {key for key, _ in cache.read_entries()}
    assert kept == {keys[0], keys[8], keys[9]}
