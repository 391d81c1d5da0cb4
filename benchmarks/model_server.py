"""A model server on this machine that speaks OpenAI's chat completions, fast or with faults.

python -m benchmarks.model_server [--port 8000] [--latency 0.05] [--per-second 100]

It answers with the sum of the numbers in a prompt. A prompt orders faults for itself, one for each
of its first calls: `2 + 2 [[500 x2, drop]]` fails three times, then gets its answer. Known are any
status (`429 1.5` asks to wait 1.5 s), and `drop`, `cut`, `html`, `half`, `empty`, `filter`, `hang`,
`leak` (a 400 that repeats the key); `[[say …]]` sets the reply. Calls are counted by content.
Models called `judge-…` are judges, see scripted_judges.
"""

from __future__ import annotations

import asyncio
import re
from argparse import ArgumentParser
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any

from aiohttp import web

from benchmarks import scripted_judges

_ORDER = re.compile(r"\[\[(?!say )(?P<faults>[^\]]*)\]\]")
_SAY = re.compile(r"\[\[say (?P<text>.*?)\]\]", re.DOTALL)
_FAULT = re.compile(r"(?P<what>\w+)(?: (?P<wait>[\d.]+))?(?: x(?P<times>\d+))?")
_NUMBER = re.compile(r"-?\d+")
_HOUR = 3600
_BODIES = {
    "html": "<html>502 Bad Gateway</html>",
    "half": '{"choices": [{"mess',
    "empty": '{"choices": [], "usage": {}}',
    "filter": '{"choices": [{"message": {"content": null}, "finish_reason": "content_filter"}]}',
}


class ModelServer:
    """The server, and what it has seen."""

    def __init__(self, *, latency: float = 0.0, per_second: float | None = None) -> None:
        self.latency = latency
        self.per_second = per_second
        self.asked: Counter[str] = Counter()  # calls by prompt
        self.answered: Counter[str] = Counter()  # those that got a whole reply
        self.requests: list[dict[str, Any]] = []  # their bodies, the last thousand
        self.in_flight = 0
        self.most_in_flight = 0
        self.broken: set[str] = set()  # models that answer with no JSON until they are mended
        self.began: float | None = None  # when the first request came
        self.ended: float | None = None  # when the last reply went
        self._recent: deque[float] = deque()

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, or do what its prompt orders."""
        self.began = self.began or monotonic()
        body = await request.json()
        prompt = body["messages"][-1]["content"]
        self.requests = [*self.requests[-999:], body]
        self.asked[prompt] += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self._is_too_fast():
                return _status(429, {"Retry-After": "0.1"})
            if self.latency:
                await asyncio.sleep(self.latency)
            if body["model"] in self.broken:
                return await _faulty(request, "html", None)
            orders = list(_orders(prompt))
            if self.asked[prompt] <= len(orders):
                what, wait = orders[self.asked[prompt] - 1]
                return await _faulty(request, what, wait)
            if (problem := scripted_judges.takes(body)) is not None:
                return _status(400, {}, problem)
            if body["model"] == "judge-slow":
                await asyncio.sleep(scripted_judges.SLOW)
            self.answered[prompt] += 1
            is_judge = body["model"].startswith(scripted_judges.PREFIX)
            if is_judge:
                return web.json_response(_completion(body, scripted_judges.reply(body)))
            said = {"role": "assistant", "content": _text(prompt)}
            return web.json_response(_completion(body, said))
        finally:
            self.in_flight -= 1
            self.ended = monotonic()

    async def tell_seconds(self, request: web.Request) -> web.Response:
        """Answer how long calls have been under way, and start the clock anew."""
        del request
        seconds = None if self.ended is None or self.began is None else self.ended - self.began
        self.began = self.ended = None
        return web.json_response(seconds)

    async def fields(self, request: web.Request) -> web.Response:
        """Answer a whole record, as a system behind plain HTTP does."""
        record = await request.json()
        self.asked[record["id"]] += 1
        return web.json_response({"answer": _sum(record["input"]), "cot": "I added."})

    def _is_too_fast(self) -> bool:
        if self.per_second is None:
            return False
        now = monotonic()
        while self._recent and self._recent[0] < now - 1:
            self._recent.popleft()
        if len(self._recent) >= self.per_second:
            return True
        self._recent.append(now)
        return False

    def app(self) -> web.Application:
        """The routes."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.complete)
        app.router.add_post("/fields", self.fields)
        app.router.add_get("/v1/seconds", self.tell_seconds)
        return app

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[str]:
        """Serve; gives the base URL."""
        runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        finally:
            await runner.cleanup()

    @contextmanager
    def in_thread(self) -> Iterator[str]:
        """Serve beside the caller; gives the base URL."""
        ready, over = Event(), Event()
        url: list[str] = []

        async def serve() -> None:
            async with self.listening() as base:
                url.append(base)
                ready.set()
                await asyncio.get_running_loop().run_in_executor(None, over.wait)

        thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
        thread.start()
        ready.wait(10)
        try:
            yield url[0]
        finally:
            over.set()
            thread.join(10)


def _orders(prompt: str) -> Iterator[tuple[str, str | None]]:
    for order in _ORDER.finditer(prompt):
        for part in order["faults"].split(","):
            if fault := _FAULT.fullmatch(part.strip()):
                for _ in range(int(fault["times"] or 1)):
                    yield fault["what"], fault["wait"]


async def _faulty(request: web.Request, what: str, wait: str | None) -> web.StreamResponse:
    if what.isdigit():
        return _status(int(what), {} if wait is None else {"Retry-After": wait})
    if what == "leak":
        return _status(400, {}, f"no such key: {request.headers.get('Authorization')}")
    if what == "hang":
        await asyncio.sleep(_HOUR)
    if what in _BODIES:
        return web.Response(text=_BODIES[what], content_type="application/json")
    assert request.transport is not None
    if what == "cut":
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"choices": [')
    request.transport.close()
    return web.Response()


def _status(status: int, headers: dict[str, str], message: str = "as ordered") -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status, headers=headers)


def _text(prompt: str) -> str:
    if said := _SAY.search(prompt):
        return said["text"]
    return f"1. I add the numbers.\n2. That is all.\nANSWER: {_sum(prompt)}"


def _sum(text: str) -> str:
    return str(sum(int(each) for each in _NUMBER.findall(_ORDER.sub("", text).split("\n")[0])))


def _completion(body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    text = str(message["content"])
    prompt = " ".join(each["content"] for each in body["messages"])
    tokens = [{"token": f"{word} ", "logprob": -0.1} for word in text.split()]
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "finish_reason": "stop",
    }
    if body.get("logprobs"):
        choice["logprobs"] = {"content": tokens}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [choice],
        "usage": {
            "prompt_tokens": len(prompt.split()),
            "completion_tokens": len(text.split()),
            "total_tokens": len(prompt.split()) + len(text.split()),
        },
    }


def main() -> None:
    """Serve until interrupted."""
    parser = ArgumentParser(prog="python -m benchmarks.model_server", description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds per call")
    parser.add_argument("--per-second", type=float, help="calls above this rate get a 429")
    options = parser.parse_args()

    async def serve() -> None:
        server = ModelServer(latency=options.latency, per_second=options.per_second)
        async with server.listening(options.port) as url:
            print(url, flush=True)
            await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
