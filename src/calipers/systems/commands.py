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

from calipers.support.errors import UsageError
from calipers.systems.calls import Call, Fault, Reply
from calipers.systems.command_guard import CommandGuard
from calipers.systems.http import MOST_BYTES, encode_json, parse_reply

_KEPT = 1 << 16  # bytes of what it wrote to stderr, before they are masked
_EDGE = 1 << 12  # bytes after a cut that may begin in the middle of a key
_GRACE = 1.0  # seconds for what is in a pipe when everybody has ended
_CHUNK = 1 << 16
_FIRST_LOOK, _LOOKS = 0.001, 0.02  # seconds between looks whether it has ended


class Command:
    """Runs a program for each call, in the suite's folder, and ends it with all it started."""

    def __init__(self, command: list[str], folder: Path, guard: CommandGuard) -> None:
        self._command = [find_program(command[0], folder), *command[1:]]
        self._folder = folder
        self._guard = guard

    async def __call__(self, call: Call) -> Reply:
        """Return the fields that it wrote; raise a Fault for an exit code other than 0."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                cwd=self._folder,
                env=self._guard.environment,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise Fault("exception", f"{self._command[0]}: {error}") from error
        with self._guard.watch(process.pid):
            try:
                return await _read_reply(process, encode_json(call.record))
            finally:
                await end_process(process)


async def _read_reply(process: Process, record: bytes) -> Reply:
    """Return what the command wrote until it ended, whatever it left running."""
    assert process.stdout is not None
    assert process.stderr is not None
    written, complaints = bytearray(), bytearray()
    reading = asyncio.create_task(_keep_all(process.stdout, written))
    listening = asyncio.create_task(keep_last(process.stderr, complaints))
    feeding = asyncio.create_task(_feed(process, record))
    ending = asyncio.create_task(read_exit_code(process))
    try:
        # More than is allowed ends it before its time.
        await asyncio.wait((ending, reading), return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            await reading
        code = await read_exit_code(process)
        _end_group(process)  # what it left behind holds the pipes open
        await asyncio.wait((reading, listening), timeout=_GRACE)
        if reading.done():
            await reading
    finally:
        for task in (reading, listening, feeding, ending):
            task.cancel()
        await asyncio.gather(reading, listening, feeding, ending, return_exceptions=True)
    if code != 0:
        raise Fault("exception", describe_end(code, complaints))
    return parse_reply(bytes(written), again=False)


def describe_end(code: int, complaints: bytearray) -> str:
    """Return how a program ended, and the last thing it said."""
    how = f"exit code {code}" if code >= 0 else f"ended by {_name_signal(-code)}"
    last = find_last_line(complaints)
    return f"{how}: {last}" if last else how


async def read_exit_code(process: Process) -> int:
    """Return the exit code as soon as there is one: `Process.wait` waits for the pipes as well."""
    pause = _FIRST_LOOK
    while process.returncode is None:
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LOOKS)
    return process.returncode


async def _feed(process: Process, record: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):  # not every command reads it all
        process.stdin.write(record)
        await process.stdin.drain()
    process.stdin.close()


async def _keep_all(stream: asyncio.StreamReader, kept: bytearray) -> None:
    while piece := await stream.read(_CHUNK):
        kept += piece
        if len(kept) > MOST_BYTES:
            raise Fault("bad_response", f"it wrote more than {MOST_BYTES >> 20} MiB")


async def keep_last(stream: asyncio.StreamReader, kept: bytearray) -> None:
    """Keep the end of what is written, until there is no more."""
    while piece := await stream.read(_CHUNK):
        kept += piece
        del kept[:-_KEPT]


def find_last_line(complaints: bytearray) -> str:
    """Return the end of what it said, where the reason is; a truncated first line is dropped."""
    is_cut = len(complaints) >= _KEPT
    lines = bytes(complaints).decode(errors="replace").strip().splitlines()
    if is_cut and len(lines) == 1:
        return f"…{lines[0][_EDGE:]}"
    return lines[-1] if lines else ""


async def end_process(process: Process) -> None:
    """Kill the process and all it started, and close its pipes."""
    _end_group(process)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE):
            await read_exit_code(process)
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001  # no public way
    await process.wait()


def _end_group(process: Process) -> None:
    """Kill what is left of the command's process group, even if the command itself has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def find_program(name: str, folder: Path) -> str:
    """Return the path of the program; `python` is this interpreter if PATH has none."""
    program = shutil.which(name if os.sep not in name else str(folder.absolute() / name))
    if program is None and name in ("python", "python3"):
        program = sys.executable
    if program is None:
        raise UsageError(f"{name}: no such command", fix="check its spelling, and PATH")
    return program
