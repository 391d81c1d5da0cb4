"""OpenAI's batches: a file of requests goes up, a file of replies comes back within 24 hours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from calipers.systems.batches.ledger import Sending
from calipers.systems.batches.model import Outcome
from calipers.systems.batches.requests import BatchLost, Requests, read_id, write_lines
from calipers.systems.calls import Call, Fault
from calipers.systems.chat import make_body, read_reply
from calipers.systems.posting import Session
from calipers.systems.wire import make_status_fault

BASE_URL = "https://api.openai.com/v1"
_ENDPOINT = "/v1/chat/completions"
_OK = 200
_OVER = ("completed", "expired", "cancelled")  # there may be results of some calls
_EXPIRED = "batch_expired"
_MARK = "calipers"  # of the metadata


class OpenAIBatches:
    """Batches of chat completions."""

    def __init__(
        self, session: Session, model: str, base_url: str, key: str | None, *, logprobs: bool
    ) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._requests = Requests(session, base_url, headers)
        self._model = model
        self._logprobs = logprobs

    async def make_request(self, call: Call) -> dict[str, Any]:
        """Return the body of a chat completion."""
        return (await make_body(call, self._model, logprobs=self._logprobs))[0]

    async def submit(self, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:
        """Upload the requests and start a batch on them."""
        from aiohttp import FormData  # noqa: PLC0415 (an extra; there, as a session is)

        form = FormData()
        form.add_field("purpose", "batch")
        lines: list[Mapping[str, Any]] = [
            {"custom_id": name, "method": "POST", "url": _ENDPOINT, "body": body}
            for name, body in requests.items()
        ]
        form.add_field("file", write_lines(lines), filename="calipers.jsonl")
        file = await self._requests.upload("/files", form)
        asked = {
            "input_file_id": file.get("id"),
            "endpoint": _ENDPOINT,
            "completion_window": "24h",
            "metadata": {_MARK: mark},
        }
        return read_id(await self._requests.post("/batches", asked))

    async def find_batch(self, sending: Sending, known: Collection[str]) -> str | None:
        """Return the batch that has the mark of the sending."""
        del known
        async for found in self._requests.read_list("/batches", "after"):
            metadata = found.get("metadata")
            if isinstance(metadata, dict) and metadata.get(_MARK) == sending.mark:
                return read_id(found)
        return None

    async def is_done(self, batch: str) -> bool:
        """Say whether it has ended."""
        found = await self._requests.get(f"/batches/{batch}")
        if found.get("status") == "failed":
            raise BatchLost(f"{batch} was refused: {_read_errors(found)}")
        return found.get("status") in _OVER

    async def read_results(self, batch: str) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield the results of both files: replies, and errors."""
        found = await self._requests.get(f"/batches/{batch}")
        for key in ("output_file_id", "error_file_id"):
            if file := found.get(key):
                async for line in self._requests.read_lines(f"/files/{file}/content"):
                    yield str(line.get("custom_id")), _read_outcome(line)


def _read_outcome(line: Mapping[str, Any]) -> Outcome:
    response, error = line.get("response"), line.get("error")
    if not isinstance(response, dict):
        code = error.get("code") if isinstance(error, dict) else None
        said = str(error.get("message") or error) if isinstance(error, dict) else "no response"
        return Fault("timeout" if code == _EXPIRED else "server", said, again=True)
    status, body = response.get("status_code"), response.get("body")
    if status != _OK:
        return make_status_fault(status if isinstance(status, int) else 500, {}, body)
    try:
        return read_reply(body)
    except Fault as fault:
        return fault


def _read_errors(found: Mapping[str, Any]) -> str:
    errors = found.get("errors")
    listed = errors.get("data") if isinstance(errors, dict) else None
    said = [str(each.get("message")) for each in listed or () if isinstance(each, dict)]
    return "; ".join(said[:3]) or "no reason is given"
