"""Ends the commands of a run that cannot do it any more, because it was killed.

A process of its own holds the other end of a pipe. It is told which commands are at work; when the
pipe closes, however the run has ended, it ends those that are left, with all that they started. One
that was started a moment before the kill may not have been told. It runs as a script, and so
imports nothing of Calipers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Leash:
    """What holds the commands."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    @contextmanager
    def around(self, pid: int) -> Iterator[None]:
        """While the command is at work; its process leads a group of its own."""
        self._tell(f"+{pid}\n")
        try:
            yield
        finally:
            self._tell(f"-{pid}\n")

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):  # somebody has ended it; the run goes on
            os.write(self._pipe, line.encode())


@contextmanager
def held() -> Iterator[Leash]:
    """A leash for the commands of a run."""
    with subprocess.Popen(  # noqa: S603 (this very file)
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the run
    ) as watcher:
        assert watcher.stdin is not None
        yield Leash(watcher.stdin.fileno())


def end_what_is_left(lines: Iterable[str]) -> None:
    """Note who begins (+) and who is done (-), until the lines end."""
    at_work: set[int] = set()
    for line in lines:
        (at_work.add if line[0] == "+" else at_work.discard)(int(line[1:]))
    for pid in at_work:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    end_what_is_left(sys.stdin)
