"""OpenAI's batches: a file of requests goes up, a file of replies comes back within 24 hours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from calipers.systems.batches.batch_model import BatchRefused, EndedBatch, Outcome, Sending
from calipers.systems.calls import Call, Fault
from calipers.systems.http import ApiClient, encode_lines, make_status_fault, read_batch_id
from calipers.systems.models import make_body, read_reply

BASE_URL = "https://api.openai.com/v1"
_ENDPOINT = "/v1/chat/completions"
_OK = 200
_OVER = ("completed", "expired", "cancelled", "failed")  # there may be results of some calls
_FILES = ("output_file_id", "error_file_id")
_EXPIRED = "batch_expired"
_MARK = "calipers"  # of the metadata


class OpenAIBatches:
    """Batches of chat completions."""

    def __init__(self, requests: ApiClient, model: str, *, logprobs: bool) -> None:
        self._requests = requests
        self._model = model
        self._logprobs = logprobs

    async def make_request(self, call: Call) -> dict[str, Any]:
        """Return the body of a chat completion."""
        return (await make_body(call, self._model, logprobs=self._logprobs))[0]

    async def submit(self, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:
        """Upload the requests and start a batch on them."""
        lines: list[Mapping[str, Any]] = [
            {"custom_id": name, "method": "POST", "url": _ENDPOINT, "body": body}
            for name, body in requests.items()
        ]
        file = await self._requests.upload("/files", "batch", encode_lines(lines))
        asked = {
            "input_file_id": file.get("id"),
            "endpoint": _ENDPOINT,
            "completion_window": "24h",
            "metadata": {_MARK: mark},
        }
        return read_batch_id(await self._requests.post("/batches", asked))

    async def find_batch(self, sending: Sending, known: Collection[str]) -> str | None:
        """Return the batch that has the mark of the sending."""
        del known
        async for batch in self._requests.read_list("/batches", "after"):
            metadata = batch.get("metadata")
            if isinstance(metadata, dict) and metadata.get(_MARK) == sending.mark:
                return read_batch_id(batch)
        return None

    async def look(self, batch: str) -> EndedBatch | None:
        """Return the batch once it has ended, with its files: replies, and errors."""
        state = await self._requests.get(f"/batches/{batch}")
        status, results = state.get("status"), _count_results(state)
        if not isinstance(status, str):
            raise Fault("bad_response", f"{batch} has no status", again=True)
        if status == "failed" and not results:
            raise BatchRefused(f"{batch} was refused: {_read_errors(state)}")
        if status not in _OVER:
            return None
        files = tuple(str(name) for key in _FILES if (name := state.get(key)))
        if not files and (status == "completed" or results != 0):
            raise Fault("bad_response", f"{batch} is {status}, and names no results", again=True)
        return EndedBatch(batch, results, files)

    async def read_results(self, ended: EndedBatch) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield the results of both files."""
        for file in ended.files:
            async for line in self._requests.read_lines(f"/files/{file}/content"):
                yield str(line.get("custom_id")), _read_outcome(line)


def _count_results(batch: Mapping[str, Any]) -> int | None:
    """Return how many calls the batch says to have answered or failed; None if it says nothing."""
    counts = batch.get("request_counts")
    if not isinstance(counts, dict):
        return None
    known = [counts[name] for name in ("completed", "failed") if isinstance(counts.get(name), int)]
    return sum(known) if known else None


def _read_outcome(line: Mapping[str, Any]) -> Outcome:
    response, error = line.get("response"), line.get("error")
    if isinstance(response, dict) and isinstance(status := response.get("status_code"), int):
        body = response.get("body")
        if status != _OK:
            return make_status_fault(status, {}, body)
        try:
            return read_reply(body)
        except Fault as fault:
            return fault
    if not isinstance(error, dict):
        return Fault("bad_response", "a result without a response and without an error")
    problem = str(error.get("message") or error)
    return Fault("timeout" if error.get("code") == _EXPIRED else "server", problem, again=True)


def _read_errors(batch: Mapping[str, Any]) -> str:
    errors = batch.get("errors")
    listed = errors.get("data") if isinstance(errors, dict) else None
    problems = [str(error.get("message")) for error in listed or () if isinstance(error, dict)]
    return "; ".join(problems[:3]) or "no reason is given"
