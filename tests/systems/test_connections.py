"""Requests to servers that behave and to servers that do not."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import TCPConnector

from calipers.support.errors import UsageError
from calipers.systems.calls import Call, Fault, Reply
from calipers.systems.http import MOST_BYTES, Endpoint, Post, check_url, open_session

LONGEST = 30  # seconds that a test may take
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
DROP = b""
HANG = b"hang"


class Script:
    """A server that answers requests as written down, and closes the connection after the last."""

    def __init__(self, *connections: Sequence[bytes]) -> None:
        self._connections = list(connections)
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.opened = 0
        self.tls: ssl.SSLContext | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        replies = self._connections[min(self.opened, len(self._connections) - 1)]
        self.opened += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            for reply in replies:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().partition("content-length: ")[2].partition("\r")[0])
                self.heads.append(head)
                self.bodies.append(await reader.readexactly(length))
                if reply == HANG:
                    await asyncio.sleep(LONGEST)
                writer.write(reply)
                await writer.drain()
        writer.close()

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self.tls)
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.close()


def post_all(script: Script, bodies: Sequence[bytes], path: str = "/v1") -> list[bytes | Fault]:
    """Return what comes of posting each of these bodies, one after the other."""

    async def post_each() -> list[bytes | Fault]:
        found: list[bytes | Fault] = []
        async with script.listen() as address, open_session() as session:
            scheme = "http" if script.tls is None else "https"
            post = Post(session, f"{scheme}://{address}{path}", {"Authorization": "Bearer key"})
            for body in bodies:
                try:
                    found.append((await post(body)).content)
                except Fault as fault:
                    found.append(fault)
        return found

    return asyncio.run(asyncio.wait_for(post_each(), LONGEST))


def post_one(*replies: bytes) -> bytes | Fault:
    return post_all(Script(replies), [b"{}"])[0]


def kind(found: bytes | Fault) -> tuple[str, bool]:
    assert isinstance(found, Fault), found
    return found.kind, found.again


def test_a_connection_is_used_again() -> None:
    script = Script([OK, OK, OK])
    assert post_all(script, [b"1", b"22", b"333"]) == [b"{}"] * 3
    assert script.opened == 1
    assert script.bodies == [b"1", b"22", b"333"]
    first = script.heads[0].splitlines()
    assert first[0] == "POST /v1 HTTP/1.1"
    assert {
        "Authorization: Bearer key",
        "Content-Type: application/json",
        "Content-Length: 1",
        "Accept-Encoding: gzip, deflate",
    } < set(first)


@pytest.mark.parametrize(
    "last",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
    ],
)
def test_a_connection_that_is_over_is_not_used_again(last: bytes) -> None:
    script = Script([last], [OK])
    assert post_all(script, [b"1", b"2"]) == [b"{}", b"{}"]
    assert script.opened == 2


def test_calls_beside_each_other_have_connections_of_their_own() -> None:
    script = Script([HANG])

    async def post_both() -> int:
        async with script.listen() as address, open_session() as session:
            post = Post(session, f"http://{address}/v1", {})
            calls = [asyncio.create_task(post(b"{}")) for _ in range(3)]
            while script.opened < 3:  # noqa: ASYNC110 (the server is ours)
                await asyncio.sleep(0.01)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        return script.opened

    assert asyncio.run(asyncio.wait_for(post_both(), LONGEST)) == 3


@pytest.mark.parametrize(
    "reply",
    [
        DROP,
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"X: " + b"y" * 100_000,
    ],
)
def test_what_is_no_reply_is_a_fault_of_the_connection(reply: bytes) -> None:
    assert kind(post_one(reply)) == ("connection", True)


def test_no_more_is_kept_of_a_body_than_is_allowed() -> None:
    endless = b"HTTP/1.1 200 OK\r\n\r\n" + bytes(MOST_BYTES + 1)
    assert kind(post_one(endless)) == ("bad_response", False)
    packed = gzip.compress(bytes(MOST_BYTES + 1), compresslevel=1)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    assert kind(post_one(head + packed)) == ("bad_response", False)


@pytest.mark.parametrize("coding", [b"gzip", b"x-gzip", b"X-GZip"])
def test_a_packed_body_is_unpacked_by_both_names_of_gzip(coding: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n"
    content = gzip.compress(b'{"a": ') + gzip.compress(b"1}")  # members of one body
    assert post_one(head % (coding, len(content)) + content) == b'{"a": 1}'
    assert kind(post_one(head % (coding, 2) + b"{}")) == ("connection", True)


def test_a_packed_body_that_is_cut_short_is_a_fault_of_the_connection() -> None:
    cut = gzip.compress(b'{"answer": "x"}')[:-12]
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: x-gzip\r\nContent-Length: %d\r\n\r\n" % len(cut)
    assert kind(post_one(head + cut)) == ("connection", True)


def test_a_redirect_is_not_followed() -> None:
    to = b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
    script = Script([to, OK])
    assert kind(post_all(script, [b"{}"])[0]) == ("bad_response", False)
    assert len(script.heads) == 1


def test_what_a_status_says() -> None:
    too_many = b"HTTP/1.1 429 No\r\nRetry-After: 1.5\r\nContent-Length: 0\r\n\r\n"
    found = post_one(too_many)
    assert isinstance(found, Fault)
    assert (found.kind, found.retry_after) == ("rate_limit", 1.5)


def test_a_server_that_is_not_there() -> None:
    async def post() -> None:
        async with open_session() as session:
            await Post(session, "http://127.0.0.1:1/v1", {})(b"{}")

    with pytest.raises(Fault, match=r"Cannot connect to host 127\.0\.0\.1:1") as caught:
        asyncio.run(post())
    assert (caught.value.kind, caught.value.outage) == ("connection", True)


def test_a_host_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find_none(*_: object, **__: object) -> None:
        raise OSError(-2, "no such host")

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", find_none)

    async def post() -> None:
        async with open_session() as session:
            await Post(session, "http://nowhere.invalid/v1", {})(b"{}")

    with pytest.raises(Fault, match=r"nowhere\.invalid:80.*no such host"):
        asyncio.run(post())


def test_a_call_that_is_given_up_closes_its_connection() -> None:
    script = Script([HANG], [OK])

    async def post_twice() -> bytes:
        async with script.listen() as address, open_session() as session:
            post = Post(session, f"http://{address}/v1", {})
            call = asyncio.create_task(post(b"1"))
            while not script.bodies:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            return (await post(b"2")).content

    assert asyncio.run(asyncio.wait_for(post_twice(), LONGEST)) == b"{}"
    assert script.opened == 2


def test_headers_of_a_call_replace_others_and_hold_no_line_ends() -> None:
    script = Script([OK])

    async def post(headers: dict[str, str]) -> bytes:
        async with script.listen() as address, open_session() as session:
            posted = await Post(session, f"http://{address}/v1", {"X-A": "1"})(b"{}", headers)
            return posted.content

    assert asyncio.run(asyncio.wait_for(post({"x-a": "2", "User-Agent": "mine"}), LONGEST)) == b"{}"
    lines = script.heads[0].splitlines()
    assert "x-a: 2" in lines
    assert not any(line.startswith("X-A") for line in lines)
    assert sum(line.startswith("User-Agent") for line in lines) == 1
    with pytest.raises(UsageError, match="line end"):
        asyncio.run(post({"X-B": "1\r\nX-C: 2"}))


def test_paths_and_queries_are_quoted() -> None:
    script = Script([OK])
    post_all(script, [b"{}"], "/a b/é?q=1 2")
    assert script.heads[0].startswith("POST /a%20b/%C3%A9?q=1+2 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "url",
    [
        *("http://ex\u00e4..mple/v1", "http://\u00e4_b c.de/v1"),
        *("http://h:99999/v1", "http://h:x/v1", "http://[::1/v1", "http:///v1", "ftp://h/v1"),
    ],
)
def test_what_is_no_address_of_a_server_is_a_mistake_of_the_suite(url: str) -> None:
    with pytest.raises(UsageError, match=r"server"):
        check_url(url)


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request goes there with the whole address in its first line."""
    script = Script([OK])

    async def post() -> bytes:
        async with script.listen() as address, open_session() as session:
            monkeypatch.setenv("http_proxy", f"http://{address}")
            monkeypatch.setenv("no_proxy", "")
            posted = await Post(session, "http://model.invalid/v1", {"X-A": "1"})(
                b"{}", {"X-B": "2"}
            )
            return posted.content

    assert asyncio.run(asyncio.wait_for(post(), LONGEST)) == b"{}"
    lines = script.heads[0].splitlines()
    assert lines[0] == "POST http://model.invalid/v1 HTTP/1.1"
    assert {"X-A: 1", "X-B: 2"} < set(lines)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and its certificate, which nobody has signed."""
    path = tmp_path / "server.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    command += " -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    try:
        subprocess.run(
            [*command.split(), "-keyout", path, "-out", tmp_path / "certificate.pem"],
            check=True,
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("without openssl")
    path.write_bytes(path.read_bytes() + (tmp_path / "certificate.pem").read_bytes())
    return path


def test_tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates are checked: with the one that is trusted it works, and otherwise not."""
    script = Script([OK, OK])
    script.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    script.tls.load_cert_chain(certificate)
    found = post_all(script, [b"1"])[0]
    assert kind(found) == ("connection", True)
    assert "certificate" in str(found)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    trusting = ssl.create_default_context()  # as aiohttp makes it when it is loaded
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
    assert post_all(script, [b"1", b"2"]) == [b"{}", b"{}"]
    assert script.bodies == [b"1", b"2"]


def test_the_time_of_a_call_is_without_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = TCPConnector._create_connection

    async def connect_slowly(*args: Any) -> Any:
        await asyncio.sleep(0.2)
        return await connect(*args)

    monkeypatch.setattr(TCPConnector, "_create_connection", connect_slowly)
    script = Script([OK])

    async def ask() -> Reply:
        async with script.listen() as address, open_session() as session:
            endpoint = Endpoint(session, f"http://{address}/v1", None)
            return await endpoint(Call(record={}, prompt=""))

    reply = asyncio.run(asyncio.wait_for(ask(), LONGEST))
    assert reply.seconds is not None
    assert 0 <= reply.seconds < 0.1
