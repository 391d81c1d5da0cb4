"""A server on loopback that speaks as OpenAI's does, and replies as a function says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Replies = Callable[[dict[str, Any]], dict[str, Any]]
"""From the body of a request to the message: its content, or its tool_calls."""


class ChatServer(ThreadingHTTPServer):
    """Remembers what it was asked."""

    def __init__(self, reply: Replies) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.seen: list[dict[str, Any]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, ChatServer)
        self.server.seen.append(body)
        usage = {"prompt_tokens": 10, "completion_tokens": 2}
        message = {"role": "assistant", **self.server.reply(body)}
        ended = "tool_calls" if message.get("tool_calls") else "stop"
        usage["total_tokens"] = 12
        choice = {"index": 0, "message": message, "finish_reason": ended}
        about = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"]}
        content = json.dumps({**about, "choices": [choice], "usage": usage}).encode()
        if self.server.status != 200:
            content = json.dumps({"error": {"message": "not now"}}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_chat(reply: Replies) -> Iterator[ChatServer]:
    """Serve until the end of the block."""
    server = ChatServer(reply)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
