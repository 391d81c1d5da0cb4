"""An imitation of OpenAI's and Anthropic's batch endpoints, as their references describe them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

from aiohttp import web

FAIL_ONCE, REFUSED, EXPIRE_ONCE = "[[fail once]]", "[[refused]]", "[[expire once]]"


class BatchServer:
    """Answers sums such as `3 + 1` in batches, as soon as it is let."""

    def __init__(self) -> None:
        self.batches: list[dict[str, dict[str, Any]]] = []  # the requests of each, by custom_id
        self.marks: list[Any] = []  # the metadata of each
        self.is_open = True  # or the batches stay in progress
        self.is_mute = False  # or whoever sends a batch hears nothing of it
        self.drops = 0  # connections that break as a batch is sent
        self.takes = True  # or a batch that is not heard of is not taken either
        self.sent = 0
        self.polls = 0
        self.keys: set[str | None] = set()
        self._files: dict[str, bytes] = {}
        self._seen: set[str] = set()

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/files", self._upload),
            web.post("/v1/batches", self._start),
            web.get("/v1/batches", self._list),
            web.get("/v1/batches/{id}", self._look),
            web.get("/v1/files/{id}/content", self._download),
            web.post("/v1/messages/batches", self._start_messages),
            web.get("/v1/messages/batches", self._list_messages),
            web.get("/v1/messages/batches/{id}", self._look_messages),
            web.get("/v1/messages/batches/{id}/results", self._results),
        ]

    # --- OpenAI ---

    async def _upload(self, request: web.Request) -> web.Response:
        self.keys.add(request.headers.get("Authorization"))
        form = await request.post()
        assert form["purpose"] == "batch"
        name = f"file-{len(self._files)}"
        self._files[name] = form["file"].file.read()  # type: ignore[union-attr]
        return web.json_response({"id": name, "object": "file"})

    async def _start(self, request: web.Request) -> web.Response:
        asked = await request.json()
        assert (asked["endpoint"], asked["completion_window"]) == ("/v1/chat/completions", "24h")
        lines = [json.loads(line) for line in self._files[asked["input_file_id"]].splitlines()]
        assert all(line["method"] == "POST" and line["url"] == asked["endpoint"] for line in lines)
        batch = {line["custom_id"]: line["body"] for line in lines}
        await self._take(request, batch, asked["metadata"])
        return web.json_response({"id": f"batch_{len(self.batches) - 1}", "status": "validating"})

    async def _take(
        self, request: web.Request, batch: dict[str, dict[str, Any]], mark: Any = None
    ) -> None:
        """Take a batch, and say so, or do not."""
        self.sent += 1
        is_heard = not self.is_mute and not self.drops
        if self.takes or is_heard:
            self.batches.append(batch)
            self.marks.append(mark)
        if self.drops:
            self.drops -= 1
            assert request.transport is not None
            request.transport.abort()
        while self.is_mute:  # noqa: ASYNC110 (another thread says when it is over)
            await asyncio.sleep(0.01)

    async def _list(self, request: web.Request) -> web.Response:
        found = [
            {"id": f"batch_{number}", "metadata": mark, "created_at": 0}
            for number, mark in enumerate(self.marks)
        ]
        return _page(request, found, "after")

    async def _look(self, request: web.Request) -> web.Response:
        self.polls += 1
        number = _number(request)
        if not self.is_open:
            return web.json_response({"id": f"batch_{number}", "status": "in_progress"})
        if f"out-{number}" not in self._files:
            self._answer_all(number)
        files = {"output_file_id": f"out-{number}", "error_file_id": f"err-{number}"}
        found = {key: name if self._files[name] else None for key, name in files.items()}
        return web.json_response({"id": f"batch_{number}", "status": "completed", **found})

    def _answer_all(self, number: int) -> None:
        good, bad = [], []
        for name, body in self.batches[number].items():
            prompt = body["messages"][-1]["content"]
            line: dict[str, Any] = {"id": f"batch_req_{name}", "custom_id": name, "error": None}
            if self._is_first(EXPIRE_ONCE, prompt):
                error = {"code": "batch_expired", "message": "not executed in time"}
                bad.append({**line, "response": None, "error": error})
            elif self._is_first(FAIL_ONCE, prompt):
                failed = {"status_code": 500, "body": {"error": {"message": "trouble"}}}
                bad.append({**line, "response": failed})
            elif REFUSED in prompt:
                refused = {"status_code": 400, "body": {"error": {"message": "no"}}}
                bad.append({**line, "response": refused})
            else:
                good.append({**line, "response": {"status_code": 200, "body": _complete(prompt)}})
        self._files[f"out-{number}"], self._files[f"err-{number}"] = _lines(good), _lines(bad)

    async def _download(self, request: web.Request) -> web.Response:
        return web.Response(body=self._files[request.match_info["id"]])

    # --- Anthropic ---

    async def _start_messages(self, request: web.Request) -> web.Response:
        self.keys.add(request.headers.get("x-api-key"))
        assert request.headers["anthropic-version"] == "2023-06-01"
        asked = (await request.json())["requests"]
        assert all(each["params"]["max_tokens"] > 0 for each in asked)
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each["custom_id"]) for each in asked)
        await self._take(request, {each["custom_id"]: each["params"] for each in asked})
        name = f"msgbatch_{len(self.batches) - 1}"
        return web.json_response({"id": name, "processing_status": "in_progress"})

    async def _list_messages(self, request: web.Request) -> web.Response:
        found = [
            {
                "id": f"msgbatch_{number}",
                "created_at": datetime.now(UTC).isoformat(),
                "request_counts": {"processing": len(batch), "succeeded": 0},
            }
            for number, batch in enumerate(self.batches)
        ]
        return _page(request, found, "after_id")

    async def _look_messages(self, request: web.Request) -> web.Response:
        self.polls += 1
        status = "ended" if self.is_open else "in_progress"
        return web.json_response({"id": request.match_info["id"], "processing_status": status})

    async def _results(self, request: web.Request) -> web.Response:
        found = []
        for name, params in self.batches[_number(request)].items():
            prompt = params["messages"][-1]["content"]
            if self._is_first(EXPIRE_ONCE, prompt):
                result: dict[str, Any] = {"type": "expired"}
            elif REFUSED in prompt:
                error = {"type": "invalid_request_error", "message": "no"}
                result = {"type": "errored", "error": {"type": "error", "error": error}}
            else:
                message = {
                    "content": [{"type": "text", "text": _answer(prompt)}],
                    "stop_reason": "end_turn",
                    "usage": {"input_tokens": 10, "output_tokens": 5},
                }
                result = {"type": "succeeded", "message": message}
            found.append({"custom_id": name, "result": result})
        return web.Response(body=_lines(found))

    def _is_first(self, order: str, prompt: str) -> bool:
        if order not in prompt or prompt in self._seen:
            return False
        self._seen.add(prompt)
        return True

    @contextmanager
    def in_thread(self) -> Iterator[str]:
        """Serve beside the caller; gives the address."""
        ready, over = Event(), Event()
        address: list[str] = []

        async def serve() -> None:
            app = web.Application()
            app.add_routes(self._routes())
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            address.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
            ready.set()
            await asyncio.get_running_loop().run_in_executor(None, over.wait)
            await runner.cleanup()

        thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
        thread.start()
        ready.wait(30)
        try:
            yield address[0]
        finally:
            over.set()
            thread.join(30)


def _page(request: web.Request, found: list[dict[str, Any]], after: str) -> web.Response:
    """Return one of a list, the newest first, so that whoever reads it has to turn pages."""
    newest = found[::-1]
    names = [each["id"] for each in newest]
    at = names.index(request.query[after]) + 1 if after in request.query else 0
    page, rest = newest[at : at + 1], newest[at + 1 :]
    return web.json_response({"data": page, "has_more": bool(rest)})


def _number(request: web.Request) -> int:
    return int(request.match_info["id"].rpartition("_")[2])


def _answer(prompt: str) -> str:
    return f"ANSWER: {int(prompt.split(maxsplit=1)[0]) + 1}"


def _complete(prompt: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": _answer(prompt)}
    return {
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }


def _lines(found: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in found)
