"""Files that are written whole or not at all: a reader sees the old one or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from calipers.support.errors import make_write_error

PRIVATE = 0o600


@contextmanager
def stage_file(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a path beside `path` to write to, which replaces `path` at the end of the block.

    A `private` file is readable by its owner alone, as are all that may hold a provider's texts.
    """
    beside = path.with_name(f".{path.stem}.{os.getpid()}-{uuid4().hex}.partial{path.suffix}")
    try:
        if private:
            beside.touch(mode=PRIVATE)
        yield beside
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink()


def write_whole(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write the content of a file that a user asked for."""
    data = content.encode() if isinstance(content, str) else content
    try:
        with stage_file(path, private=private) as beside:
            beside.write_bytes(data)
    except OSError as error:
        raise make_write_error(path, error) from error
