"""A server on loopback that streams replies as Anthropic's does."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Replies = Callable[[dict[str, Any]], dict[str, Any]]
"""From the body of a request to a block of the message: a text, or the call of a tool."""

USAGE = {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 4}


class AnthropicServer(ThreadingHTTPServer):
    """Replies as a function says."""

    def __init__(self, reply: Replies) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, AnthropicServer)
        kind, status = "text/event-stream", self.server.status
        if status != 200:
            error = {"type": "rate_limit_error", "message": "not now"}
            kind, content = "application/json", json.dumps({"type": "error", "error": error})
        else:
            events = _list_events(body["model"], self.server.reply(body))
            content = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content.encode())))
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, *_: object) -> None:
        pass


def _list_events(model: str, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    ended = "tool_use" if block["type"] == "tool_use" else "end_turn"
    about = {"id": f"msg_{id(block)}", "type": "message", "role": "assistant", "model": model}
    empty: dict[str, Any] = {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE,
    }
    yield {"type": "message_start", "message": {**about, **empty}}
    if block["type"] == "text":
        begun: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        begun = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield {"type": "content_block_start", "index": 0, "content_block": begun}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    told = {"stop_reason": ended, "stop_sequence": None}
    yield {"type": "message_delta", "delta": told, "usage": {"output_tokens": 2}}
    yield {"type": "message_stop"}


@contextmanager
def serve_anthropic(reply: Replies) -> Iterator[AnthropicServer]:
    """Serve until the end of the block."""
    server = AnthropicServer(reply)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
