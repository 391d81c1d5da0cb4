"""JSON of systems, and the faults of HTTP: bodies are bounded, every fault has its kind."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from math import isfinite
from typing import Any

from calipers.systems.calls import Fault, Kind, Reply, describe_error, make_reply

MOST_BYTES = 16 << 20
"""Of a reply, or of what a command writes."""

_REJECTED_KEY = (401, 403)
_TOO_MANY = 429
_SERVER = 500
_HELD = 1 << 16  # bytes of a body that a message is made of, before it is masked and cut
_SHOWN = 300  # characters of a provider's message
_START = 80  # characters of what is not JSON
_FILTERS = ("content_filter", "content_policy", "ResponsibleAI")
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
_SPENT = ("insufficient_quota", "billing")


def as_json(value: Any) -> bytes:
    """Return JSON in UTF-8; unpaired surrogates, which it cannot hold, are replaced."""
    return _encode(value).encode("utf-8", "replace")


def parse_reply(content: bytes, *, again: bool = True) -> Reply:
    """Return the reply in a JSON body: record fields, or a text."""
    return make_reply(parse_json(content, again=again))


def parse_json(content: bytes, *, again: bool = True) -> Any:
    """Return the JSON in a body; raise a Fault, with `again` if another attempt may help."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        text = content[:_HELD].decode(errors="replace")
        said = f"not JSON: {text}" if text.strip() else "not JSON, but nothing at all"
        raise Fault("bad_response", said, again=again, most=_START) from error


def make_length_fault() -> Fault:
    """Return the fault for a body too large to keep in memory."""
    return Fault("bad_response", f"a body of more than {MOST_BYTES >> 20} MiB")


def make_connection_fault(error: BaseException) -> Fault:
    """Return the fault for a connection that was refused, dropped or cut short."""
    kind: Kind = "timeout" if isinstance(error, TimeoutError) else "connection"
    return Fault(kind, describe_error(error), again=True, outage=True)


def make_status_fault(status: int, headers: Mapping[str, str], content: bytes | object) -> Fault:
    """Return the fault for a status other than 200, and whether to retry."""
    code, message = _read_error(content)
    fault = partial(Fault, message=f"{status} {message}".strip(), most=_SHOWN)
    if any(word in code for word in _FILTERS):
        return fault("content_filter")
    wait = read_retry_after(headers)
    if status == _TOO_MANY:
        spent = any(word in code for word in _SPENT)
        return fault("rate_limit", again=not spent, outage=spent, retry_after=wait)
    if status >= _SERVER:
        return fault("server", again=True, outage=True, retry_after=wait)
    if status < _SERVER - 100:
        return fault("bad_response")
    return fault("bad_request", outage=status in _REJECTED_KEY)


def _read_error(content: bytes | object) -> tuple[str, str]:
    """Return the code and the message of an error, wherever providers put them."""
    body = content
    if isinstance(content, bytes):
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = content[:_HELD].decode(errors="replace")
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        code = f"{error.get('code', '')} {error.get('type', '')}"
        return code, str(error.get("message") or error.get("detail") or error)
    return "", str(error or "")


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks to wait, from a number or a date."""
    given = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        with contextlib.suppress(KeyError, ValueError):
            seconds = float(given[name]) / unit
            if isfinite(seconds):
                return max(0.0, seconds)
    with contextlib.suppress(KeyError, ValueError, TypeError):
        then = parsedate_to_datetime(given["retry-after"])
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        return max(0.0, (then - datetime.now(tz=UTC)).total_seconds())
    return None
