"""A command as a system: the record as JSON on its stdin, record fields as JSON on its stdout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from calipers.errors import UsageError
from calipers.systems.calls import Call, Fault, Reply
from calipers.systems.leash import Leash
from calipers.systems.wire import MOST_BYTES, as_json, json_reply

_KEPT = 2_000  # bytes of what it wrote to stderr
_CHUNK = 1 << 16


class Command:
    """Runs a program for each call, in the suite's folder, and ends it with all it started."""

    def __init__(self, command: list[str], folder: Path, leash: Leash) -> None:
        self._command = [_program(command[0], folder), *command[1:]]
        self._folder = folder
        self._leash = leash

    async def __call__(self, call: Call) -> Reply:
        """The fields that it wrote; an exit code other than 0 is a fault."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                cwd=self._folder,
                env=self._leash.environment,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise Fault("exception", f"{self._command[0]}: {error}") from error
        with self._leash.around(process.pid):
            try:
                return await self._reply(process, as_json(call.record))
            finally:
                await _end(process)

    async def _reply(self, process: Process, record: bytes) -> Reply:
        assert process.stdout is not None
        assert process.stderr is not None
        said = asyncio.create_task(_last_of(process.stderr))
        feeding = asyncio.create_task(_feed(process, record))
        try:
            written = await _bounded(process.stdout)
            code = await process.wait()
            last = await said
        finally:
            said.cancel()
            feeding.cancel()
        if code != 0:
            how = f"exit code {code}" if code > 0 else f"ended by {_signal(-code)}"
            raise Fault("exception", f"{how}: {last}" if last else how)
        return json_reply(written, again=False)


async def _feed(process: Process, record: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):  # not every command reads it all
        process.stdin.write(record)
        await process.stdin.drain()
    process.stdin.close()


async def _bounded(stream: asyncio.StreamReader) -> bytes:
    pieces, size = [], 0
    while piece := await stream.read(_CHUNK):
        size += len(piece)
        if size > MOST_BYTES:
            raise Fault("bad_response", f"it wrote more than {MOST_BYTES >> 20} MiB")
        pieces.append(piece)
    return b"".join(pieces)


async def _last_of(stream: asyncio.StreamReader) -> str:
    """The end of what it said: there the reason stands."""
    kept = b""
    while piece := await stream.read(_CHUNK):
        kept = (kept + piece)[-_KEPT:]
    lines = kept.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


async def _end(process: Process) -> None:
    """Ends it, all it started, and its pipes: one that nobody reads to its end stays open."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001  # no public way
    await process.wait()


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _program(name: str, folder: Path) -> str:
    """Where the program is, from wherever one looks; `python` is this one where PATH has none."""
    found = shutil.which(name if os.sep not in name else str(folder.absolute() / name))
    if found is None and name in ("python", "python3"):
        found = sys.executable
    if found is None:
        raise UsageError(f"{name}: no such command", fix="check its spelling, and PATH")
    return found
