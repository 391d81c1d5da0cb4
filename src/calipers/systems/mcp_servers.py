"""Servers of the Model Context Protocol, whose tools are offered to models.

A server is started, or connected to, once for a run, and ended with it: all that its program has
started too. Its start, every call and every message are bounded. What a tool says is a message to
the model, errors of the tool included. A server that dies, hangs or sends what is no message of the
protocol is a fault of the call, not of the model; it is started anew for the next call.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.support.errors import UsageError, nearest
from calipers.support.version import __version__
from calipers.systems.calls import Fault, describe_error
from calipers.systems.command_guard import CommandGuard
from calipers.systems.commands import (
    describe_end,
    end_process,
    find_program,
    keep_last,
    read_exit_code,
)
from calipers.systems.keys import read_api_key
from calipers.systems.spec import McpServerSpec

if TYPE_CHECKING:
    from httpx2 import Response
    from mcp import ClientSession
    from mcp.types import CallToolResult

MOST_BYTES = 4 << 20
"""Of one message of a server."""

_MOST = 100_000  # characters of a tool's reply
_MOST_TOOLS, _MOST_PAGES = 1_000, 100
_GRACE = 2.0  # seconds to say farewell in
_SHOWN = 80  # characters of what is no message
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
_BETWEEN = 64  # messages on their way


@dataclass(slots=True)
class _Connection:
    """A server that is connected, until it is told to end or has failed."""

    session: asyncio.Future[ClientSession]
    over: asyncio.Event = field(default_factory=asyncio.Event)
    failure: Fault | None = None
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    noise: str = ""  # the last line that was no message of the protocol
    task: asyncio.Task[None] | None = None

    def fail(self, fault: Fault) -> None:
        """Note the first thing that went wrong, and wake whoever waits for a reply."""
        self.failure = self.failure or fault
        self.failed.set()


class McpServer:
    """One server, connected when it is needed."""

    def __init__(self, spec: McpServerSpec, folder: Path, guard: CommandGuard | None) -> None:
        self.name = spec.label
        self._spec = spec
        self._folder = folder
        self._guard = guard
        self._limit = spec.timeout_seconds
        self._environment = _read_environment(spec)
        self._key = read_api_key(spec) if spec.url is not None else None
        self._program = None if spec.command is None else find_program(spec.command[0], folder)
        self._connecting = asyncio.Lock()
        self._connection: _Connection | None = None

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return what models are told of its tools, those of the suite's `tools` alone.

        Raises:
            UsageError: The suite names a tool that the server does not have.
            Fault: The server cannot be reached, or sends no list.
        """
        from mcp.types import PaginatedRequestParams  # noqa: PLC0415 (only where there are servers)

        tools: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            page = await self._ask(lambda session, params=params: session.list_tools(params=params))
            tools += [
                {
                    "name": tool.name,
                    "description": tool.description or "",
                    "parameters": tool.input_schema,
                }
                for tool in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None or len(tools) > _MOST_TOOLS:
                break
        return self._choose(tools[:_MOST_TOOLS])

    async def call(self, tool: str, args: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the reply of a tool, and whether it reports success.

        Raises:
            Fault: There is no reply, or one that cannot be read.
        """
        from mcp import MCPError  # noqa: PLC0415 (only where there are servers)

        try:
            result = await self._ask(lambda session: session.call_tool(tool, dict(args)))
        except MCPError as error:  # an answer too: there is no such tool, the arguments are wrong
            return f"error: {error.message}"[:_MOST], False
        return _read_text(result)[:_MOST], not result.is_error

    async def close(self) -> None:
        """End it, if it is connected."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.task is not None:
            connection.over.set()
            if connection.session.done() and not connection.failed.is_set():
                await asyncio.wait([connection.task], timeout=2 * _GRACE)
            connection.task.cancel()
            await asyncio.gather(connection.task, return_exceptions=True)

    def _choose(self, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self._spec.tools is None:
            return tools
        by_name = {tool["name"]: tool for tool in tools}
        for name in self._spec.tools:
            if name not in by_name:
                problem = f"mcp: {self.name} has no tool {name}"
                raise UsageError(problem, fix=nearest(name, sorted(by_name)))
        return [by_name[name] for name in dict.fromkeys(self._spec.tools)]

    async def _ask(self, ask: Any) -> Any:
        """Return the server's reply; MCPError is one too, if the server itself has sent it."""
        from mcp import MCPError  # noqa: PLC0415 (only where there are servers)
        from mcp.types import CONNECTION_CLOSED  # noqa: PLC0415

        connection = await self._connect()
        asking = asyncio.create_task(ask(connection.session.result()))
        failing = asyncio.create_task(connection.failed.wait())
        try:
            await asyncio.wait(
                (asking, failing), timeout=self._limit, return_when=asyncio.FIRST_COMPLETED
            )
            if asking.done():
                return asking.result()
            fault = connection.failure or self._make_late("no reply", connection)
        except MCPError as error:
            if error.code != CONNECTION_CLOSED and connection.failure is None:
                raise
            fault = connection.failure or Fault(
                "connection", "the connection was closed", again=True, outage=True
            )
            connection.fail(fault)
        except Exception as error:  # noqa: BLE001 (a result of another shape)
            fault = Fault("bad_response", describe_error(error))
        finally:
            for task in (asking, failing):
                task.cancel()
            await asyncio.gather(asking, failing, return_exceptions=True)
        raise self._name(fault)

    def _make_late(self, what: str, connection: _Connection) -> Fault:
        if connection.noise:
            noise = f"it writes what is no message of the protocol: {connection.noise}"
            return Fault("bad_response", noise, outage=True)
        return Fault("timeout", f"{what} within {self._limit:g} s", again=True, outage=True)

    def _name(self, fault: Fault) -> Fault:
        """Return a fault that names the server."""
        return Fault(
            fault.kind, f"mcp {self.name}: {fault.message}", again=fault.again, outage=fault.outage
        )

    async def _connect(self) -> _Connection:
        async with self._connecting:
            if self._connection is not None and not self._connection.failed.is_set():
                return self._connection
            await self.close()
            connection = _Connection(asyncio.get_running_loop().create_future())
            self._connection = connection
            connection.task = asyncio.create_task(self._stay_connected(connection))
            failing = asyncio.create_task(connection.failed.wait())
            await asyncio.wait(
                (connection.session, failing),
                timeout=self._limit,
                return_when=asyncio.FIRST_COMPLETED,
            )
            failing.cancel()
            if not connection.session.done():
                fault = connection.failure or self._make_late("it has not started", connection)
                connection.fail(fault)
                await self.close()
                raise self._name(fault)
            return connection

    async def _stay_connected(self, connection: _Connection) -> None:
        """Open the connection and hold it: what opens it must also close it, in one task."""
        from mcp import ClientSession  # noqa: PLC0415 (only where there are servers)
        from mcp.types import Implementation  # noqa: PLC0415

        about = Implementation(name="calipers", version=__version__)
        try:
            async with (
                self._open_streams(connection) as (read, write),
                ClientSession(read, write, client_info=about) as session,
            ):
                await session.initialize()
                connection.session.set_result(session)
                await connection.over.wait()
        except Exception as error:  # noqa: BLE001 (of a library; whoever waits is told)
            problem = describe_error(_find_first(error))
            connection.fail(Fault("connection", problem, again=True, outage=True))
        finally:
            connection.fail(Fault("connection", "it has ended", again=True, outage=True))

    def _open_streams(self, connection: _Connection) -> Any:
        if self._spec.url is not None:
            return self._open_http(connection, self._spec.url)
        return self._open_program(connection)

    @asynccontextmanager
    async def _open_http(self, connection: _Connection, url: str) -> AsyncIterator[Any]:
        import httpx2  # noqa: PLC0415 (comes with the protocol)
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

        async def bound(response: Response) -> None:
            """Bound the reply to a message; of other streams, the SDK bounds each event."""
            if response.headers.get("Content-Encoding", "identity") != "identity":
                connection.fail(Fault("bad_response", "a packed body, which nobody has asked for"))
                raise OSError("a packed body")
            if response.request.method == "POST":
                response.stream = _make_bounded(response.stream, connection)

        headers = {"Accept-Encoding": "identity"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        client = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(self._limit, read=None),  # a stream may be silent for long
            event_hooks={"response": [bound]},
        )
        async with (
            client,
            streamable_http_client(url, http_client=client, max_sse_event_size=MOST_BYTES) as pair,
        ):
            yield pair

    @asynccontextmanager
    async def _open_program(self, connection: _Connection) -> AsyncIterator[Any]:
        from anyio import create_memory_object_stream  # noqa: PLC0415 (comes with the protocol)

        assert self._program is not None
        assert self._guard is not None
        process = await asyncio.create_subprocess_exec(
            *(self._program, *(self._spec.command or ())[1:]),
            cwd=self._folder,
            env={**self._environment, **self._guard.mark},
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=MOST_BYTES,
            start_new_session=True,
        )
        heard, read = create_memory_object_stream[Any](_BETWEEN)
        write, said = create_memory_object_stream[Any](_BETWEEN)
        complaints = bytearray()
        assert process.stderr is not None
        listening = asyncio.create_task(keep_last(process.stderr, complaints))
        passing = [
            asyncio.create_task(_read_messages(process, heard, connection, complaints)),
            asyncio.create_task(_send_messages(process, said)),
            listening,
        ]
        with self._guard.watch(process.pid):
            try:
                yield read, write
            finally:
                await _say_farewell(process)
                await end_process(process)
                for task in passing:
                    task.cancel()
                await asyncio.gather(*passing, return_exceptions=True)
                for stream in (heard, read, write, said):
                    stream.close()


async def _read_messages(
    process: Process, heard: Any, connection: _Connection, complaints: bytearray
) -> None:
    """Pass on what the server writes, until it ends or writes a line that is too long."""
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 (only where there are servers)
    from mcp.types import jsonrpc_message_adapter  # noqa: PLC0415

    assert process.stdout is not None
    with contextlib.closing(heard):
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                connection.fail(_make_too_long())
                return
            if not line:
                break
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except (ValueError, RecursionError):
                connection.noise = repr(line[:_SHOWN].decode(errors="replace"))
                continue
            await heard.send(SessionMessage(message))
        how = "it has closed its output"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                how = f"it has ended: {describe_end(await read_exit_code(process), complaints)}"
        connection.fail(Fault("connection", how, again=True, outage=True))


async def _send_messages(process: Process, said: Any) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it has ended, and the other side says so
        async for message in said:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode("utf-8", "replace") + b"\n")
            await process.stdin.drain()


async def _say_farewell(process: Process) -> None:
    """Close the server's input, which tells it to end, and wait for a moment."""
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE):
            await read_exit_code(process)


def _make_too_long() -> Fault:
    return Fault("bad_response", f"a message of more than {MOST_BYTES >> 20} MiB")


def _make_bounded(stream: Any, connection: _Connection) -> Any:
    """Return the body of a response, which fails where it is too long."""
    from httpx2 import AsyncByteStream  # noqa: PLC0415 (comes with the protocol)

    class Bounded(AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > MOST_BYTES:
                    connection.fail(_make_too_long())
                    raise OSError(_make_too_long().message)
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


def _read_environment(spec: McpServerSpec) -> dict[str, str]:
    """Return the variables that a server is given: those named, and no keys besides."""
    for name in spec.env:
        if not os.environ.get(name):
            raise UsageError(
                f"mcp: {name} is not set in the environment, and {spec.label} is to be given it",
                fix=f"export {name}=…, or leave it out of env",
            )
    return {name: os.environ[name] for name in (*_INHERITED, *spec.env) if name in os.environ}


def _read_text(result: CallToolResult) -> str:
    """Return the reply of a tool as a text; parts of other types are named."""
    texts = [_read_part(part) for part in result.content]
    if not texts and result.structured_content is not None:
        return json.dumps(result.structured_content, default=str, ensure_ascii=False)
    return "\n".join(texts)


def _read_part(part: Any) -> str:
    text = getattr(part, "text", None) or getattr(getattr(part, "resource", None), "text", None)
    if isinstance(text, str):
        return text
    kind = getattr(part, "type", "part")
    uri = getattr(part, "uri", None) or getattr(getattr(part, "resource", None), "uri", None)
    return "" if kind == "text" else f"({kind}{'' if uri is None else f' {uri}'})"


def _find_first(error: BaseException) -> BaseException:
    """Return the first of the errors that a group holds."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of a server."""

    server: McpServer
    name: str

    async def __call__(self, args: Mapping[str, Any]) -> tuple[str, bool]:
        """Return what it says, and whether it succeeded."""
        return await self.server.call(self.name, args)


@asynccontextmanager
async def open_servers(
    specs: Sequence[McpServerSpec], folder: Path, guard: CommandGuard | None
) -> AsyncIterator[tuple[list[dict[str, Any]], dict[str, McpTool]]]:
    """Yield what models are told of the servers' tools, and the tools by name.

    Raises:
        UsageError: A server cannot be started or reached, or two have a tool of one name.
    """
    servers = [McpServer(spec, folder, guard) for spec in specs]
    try:
        told: list[dict[str, Any]] = []
        tools: dict[str, McpTool] = {}
        for server in servers:
            for tool in await _list_tools(server):
                name = tool["name"]
                if name in tools:
                    raise make_collision(name, f"{tools[name].server.name} and {server.name}")
                told.append(tool)
                tools[name] = McpTool(server, name)
        yield told, tools
    finally:
        await asyncio.gather(*(server.close() for server in servers))


async def _list_tools(server: McpServer) -> list[dict[str, Any]]:
    from mcp import MCPError  # noqa: PLC0415 (only where there are servers)

    fix = "start it by hand to see what it says; timeout_seconds gives it longer"
    try:
        return await server.list_tools()
    except Fault as fault:
        raise UsageError(fault.message, fix=fix) from fault
    except MCPError as error:
        raise UsageError(f"mcp {server.name}: {error.message}", fix=fix) from error


def make_collision(name: str, who: str) -> UsageError:
    """Return the error for two tools of one name."""
    problem = f"mcp: {who} have a tool {name} each"
    return UsageError(problem, fix="leave one out: tools: […] of the server lists those to offer")
