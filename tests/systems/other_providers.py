"""A server that speaks as Anthropic's and Google's do, over real HTTP, with the same faults."""

from __future__ import annotations

import gzip
from typing import Any

from aiohttp import web

from benchmarks.model_server import ModelServer, _faulty, _orders, _text
from calipers.systems.http import MOST_BYTES


class OtherProviders(ModelServer):
    """Answers with the sum of the numbers in a prompt, and thinks aloud before."""

    def __init__(self) -> None:
        super().__init__()
        self.headers: list[dict[str, str]] = []

    def app(self) -> web.Application:
        app = super().app()
        app.router.add_post("/v1/messages", self.messages)
        app.router.add_post("/{version}/models/{model}:generateContent", self.generate)
        return app

    async def messages(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        content = body["messages"][-1]["content"]
        prompt = content if isinstance(content, str) else content[0]["text"]
        if (fault := await self._fault(request, body, prompt)) is not None:
            return fault
        return web.json_response(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": body["model"],
                "content": [
                    {"type": "thinking", "thinking": "I add.", "signature": "s"},
                    {"type": "text", "text": _text(prompt)},
                ],
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": {
                    "input_tokens": 5,
                    "output_tokens": 7,
                    "cache_read_input_tokens": 3,
                    "cache_creation_input_tokens": 2,
                },
            }
        )

    async def generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        prompt = body["contents"][-1]["parts"][0]["text"]
        if (fault := await self._fault(request, body, prompt)) is not None:
            return fault
        parts = [{"text": "I add.", "thought": True}, {"text": _text(prompt)}]
        return web.json_response(
            {
                "candidates": [
                    {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
                ],
                "usageMetadata": {
                    "promptTokenCount": 8,
                    "candidatesTokenCount": 7,
                    "cachedContentTokenCount": 3,
                    "totalTokenCount": 15,
                },
                "modelVersion": "tiny",
            }
        )

    async def _fault(
        self, request: web.Request, body: dict[str, Any], prompt: str
    ) -> web.StreamResponse | None:
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        self.asked[prompt] += 1
        orders = list(_orders(prompt))
        if self.asked[prompt] > len(orders):
            return None
        what, wait = orders[self.asked[prompt] - 1]
        if what in ("flood", "bomb"):
            flood = b'{"text": "' + b"x" * (2 * MOST_BYTES) + b'"}'
            packed = {"Content-Encoding": "gzip"} if what == "bomb" else {}
            content = gzip.compress(flood) if packed else flood
            return web.Response(
                body=content, headers={"Content-Type": "application/json", **packed}
            )
        return await _faulty(request, what, wait)
