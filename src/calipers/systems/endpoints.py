"""Any server as a system: the record is posted as JSON, record fields come back as JSON."""

from __future__ import annotations

from calipers.systems.calls import Call, Reply
from calipers.systems.posting import Post, Session
from calipers.systems.wire import as_json, parse_reply


class Endpoint:
    """Posts each record to a URL."""

    def __init__(self, session: Session, url: str, key: str | None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._post = Post(session, url, headers)

    async def __call__(self, call: Call) -> Reply:
        """Return the fields, or the text, that the server gives."""
        return parse_reply(await self._post(as_json(call.record)))
