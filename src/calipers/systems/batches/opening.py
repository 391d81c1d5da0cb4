"""Open a model that a suite asks by the batch."""

from __future__ import annotations

import os
from pathlib import Path

from calipers.support.cache import Say
from calipers.systems.batches import anthropic, openai
from calipers.systems.batches.ledger import Ledger
from calipers.systems.batches.model import BatchModel, BatchService
from calipers.systems.posting import Session
from calipers.systems.secrets import read_key
from calipers.systems.spec import SystemSpec


def open_batch_model(
    system: SystemSpec, session: Session, ledger: Path, say: Say, *, logprobs: bool
) -> BatchModel:
    """Return the model; `ledger` is the file that remembers what waits at the provider."""
    provider, _, model = (system.model or "").partition(":")
    key = read_key(system) or os.environ.get(f"{provider.upper()}_API_KEY") or None
    service: BatchService
    if provider == "anthropic":
        base_url = next(iter(system.urls), None) or anthropic.BASE_URL
        service = anthropic.AnthropicBatches(session, model, base_url, key)
    else:
        base_url = next(iter(system.urls), None) or openai.BASE_URL
        service = openai.OpenAIBatches(session, model, base_url, key, logprobs=logprobs)
    return BatchModel(service, Ledger(ledger, system.name), say, system.name)
