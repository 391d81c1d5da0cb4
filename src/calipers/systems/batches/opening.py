"""Open a model that a suite asks by the batch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from calipers.support.files import Say
from calipers.systems.batches import anthropic, openai
from calipers.systems.batches.batch_model import BatchModel, BatchService, Ledger
from calipers.systems.http import ApiClient
from calipers.systems.keys import read_api_key
from calipers.systems.spec import SystemSpec

if TYPE_CHECKING:
    from aiohttp import ClientSession


def open_batch_model(
    system: SystemSpec,
    session: ClientSession,
    ledger: Path,
    say: Say,
    *,
    logprobs: bool,
    timeout_seconds: float,
) -> BatchModel:
    """Return the model; `ledger` is the file that remembers what waits at the provider."""
    provider, _, model = (system.model or "").partition(":")
    key = read_api_key(system) or os.environ.get(f"{provider.upper()}_API_KEY") or None
    is_anthropic = provider == "anthropic"
    if is_anthropic:
        headers = {"anthropic-version": anthropic.VERSION, **({"x-api-key": key} if key else {})}
    else:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
    base_url = next(iter(system.urls), None) or (anthropic if is_anthropic else openai).BASE_URL
    requests = ApiClient(session, base_url, headers, timeout_seconds)
    service: BatchService = (
        anthropic.AnthropicBatches(requests, model)
        if is_anthropic
        else openai.OpenAIBatches(requests, model, logprobs=logprobs)
    )
    return BatchModel(service, Ledger(ledger, system.name), say, system.name)
