"""Named pipes, and what a shell makes of `<(command)`."""

from __future__ import annotations

import os
from array import array
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD
from typing import IO

from calipers.support.errors import DataError


def open_pipe(path: Path) -> IO[bytes]:
    """Return the pipe's stream; raise DataError, at once, where nobody writes to it."""
    try:
        # Opening it in the usual way would wait for somebody to write.
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            stream = path.open("rb") if _holds_bytes(pipe) or _is_written(pipe) else None
        finally:
            os.close(pipe)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", fix="check the pipe's permissions") from error
    if stream is None:
        raise DataError(
            f"{path}: a pipe without a writer", fix="start what writes to it, or name a file"
        )
    return stream


def _holds_bytes(pipe: int) -> bool:
    count = array("i", [0])
    ioctl(pipe, FIONREAD, count)
    return count[0] > 0


def _is_written(pipe: int) -> bool:
    """Say whether somebody holds the other end of an empty pipe."""
    try:
        return os.read(pipe, 1) != b""
    except BlockingIOError:
        return True
