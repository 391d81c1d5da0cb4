"""A server that repeats the key it was called with, wherever and however it is told to.

A prompt such as `[[400 base64 37]]` orders a case, a form of the key, and how many characters
stand before it.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote

from aiohttp import web

from benchmarks.model_server import ModelServer

FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda key: key,
    "upper": str.upper,
    "percent": lambda key: quote(key, safe=""),
    "percents": lambda key: "".join(f"%{ord(each):02x}" for each in key),
    "twice": lambda key: quote("".join(f"%{ord(each):02X}" for each in key)),
    "json": lambda key: "".join(f"\\u{ord(each):04x}" for each in key),
    "html": lambda key: "".join(f"&#{ord(each)};" for each in key),
    "hex": lambda key: key.encode().hex(),
    "base64": lambda key: b64encode(key.encode()).decode(),
    "basic": lambda key: "Basic " + b64encode(f"user:{key}".encode()).decode(),
    "basics": lambda key: b64encode(f"me:{key}:and more".encode()).decode(),
}
STATUSES = ("400", "401", "404", "429", "500", "302")
CASES = (*STATUSES, "text", "html", "half", "error", "say", "refusal", "thought", "parts")

_ORDER = re.compile(r"\[\[(?P<case>\w+) (?P<form>\w+) (?P<at>\d+)\]\]")


def orders(text: str) -> tuple[str, str, int]:
    """Return the case, the form and the number of characters that a text orders."""
    found = _ORDER.search(text)
    assert found is not None
    return found["case"], found["form"], int(found["at"])


def echo(text: str, key: str) -> str:
    """Return the key as a text orders it."""
    _, form, at = orders(text)
    return "x" * at + FORMS[form](key) + "."


class EchoingServer(ModelServer):
    """Repeats its callers' keys."""

    def app(self) -> web.Application:
        app = super().app()
        app.router.add_post("/v1/messages", self.messages)
        return app

    async def complete(self, request: web.Request) -> web.StreamResponse:
        return self._answer(request, await request.text())

    async def messages(self, request: web.Request) -> web.StreamResponse:
        return self._answer(request, await request.text())

    async def fields(self, request: web.Request) -> web.Response:
        return self._answer(request, await request.text(), is_record=True)

    def _answer(self, request: web.Request, asked: str, *, is_record: bool = False) -> web.Response:
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        text = echo(asked, bearer or request.headers.get("x-api-key", ""))
        case = orders(asked)[0]
        if case in STATUSES:
            return web.json_response({"error": {"message": text}}, status=int(case))
        if case == "text":
            return web.Response(text=text, status=400)
        if case in ("html", "half"):
            body = f"<html>{text}" if case == "html" else json.dumps({"choices": [text]})[:-2]
            return web.Response(text=body, content_type="application/json")
        if case == "error":
            return web.json_response({"error": {"message": text}})
        if is_record:
            return web.json_response({"answer": text, "note": {text: [text]}, "trace": text})
        message = {
            "say": {"content": text},
            "refusal": {"content": None, "refusal": text},
            "thought": {"content": "ANSWER: 1", "reasoning_content": text},
            "parts": {"content": [{"text": text[:9]}, {"text": text[9:]}]},
        }[case]
        return web.json_response({"choices": [{"message": message}]})
