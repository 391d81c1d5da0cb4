"""End the commands of a run that was killed and cannot end them itself.

A separate process holds the other end of a pipe. The run tells it which commands are running; when
the pipe closes without a farewell, it ends those that are left, with everything they started. A
command that started a moment before, and is not known to it, carries a mark in its environment by
which it is found on Linux. It runs as a script, and so imports nothing of Calipers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

_MARK = "CALIPERS_COMMAND_GUARD"
_END = ".\n"  # the run has ended by itself
_SECONDS = 1.0  # to look for what is marked: a new process carries the mark a moment later
_PAUSE = 0.05


class CommandGuard:
    """Tells the guarding process which commands to end if the run is killed."""

    def __init__(self, pipe: int, mark: str) -> None:
        self._pipe = pipe
        self._mark = mark

    @property
    def environment(self) -> Mapping[str, str]:
        """What a command is started with."""
        return {**os.environ, **self.mark}

    @property
    def mark(self) -> Mapping[str, str]:
        """The variable by which it is found."""
        return {_MARK: self._mark}

    @contextmanager
    def watch(self, pid: int) -> Iterator[None]:
        """Watch a command while it runs; its process leads its own process group."""
        self.tell(f"+{pid}\n")
        try:
            yield
        finally:
            self.tell(f"-{pid}\n")

    def tell(self, line: str) -> None:
        """Send a line to the other process."""
        with contextlib.suppress(OSError):  # somebody has ended it; the run goes on
            os.write(self._pipe, line.encode())


@contextmanager
def guard_commands() -> Iterator[CommandGuard]:
    """Yield what guards the commands of a run."""
    mark = os.urandom(16).hex()
    with subprocess.Popen(  # noqa: S603 (this very file)
        [sys.executable, "-I", "-S", __file__, mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the run
    ) as watcher:
        assert watcher.stdin is not None
        guard = CommandGuard(watcher.stdin.fileno(), mark)
        try:
            yield guard
        finally:
            guard.tell(_END)


def end_remaining(lines: Iterable[str], mark: str) -> None:
    """Follow which commands run, by lines of +PID and -PID, and kill the rest at their end."""
    at_work: set[int] = set()
    for line in lines:
        if line == _END:
            end_marked(mark)  # what left the group of its command, and stayed
            return
        (at_work.add if line[0] == "+" else at_work.discard)(int(line[1:]))
    for pid in at_work:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    until = monotonic() + _SECONDS
    while monotonic() < until:
        end_marked(mark)
        sleep(_PAUSE)


def end_marked(mark: str) -> None:
    """Kill the processes that carry the mark, where /proc shows it."""
    for pid in find_marked(mark):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def find_marked(mark: str) -> Iterator[int]:
    """Yield the processes that carry the mark, where /proc shows it."""
    wanted = f"{_MARK}={mark}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            if wanted in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


if __name__ == "__main__":
    end_remaining(sys.stdin, sys.argv[1])
