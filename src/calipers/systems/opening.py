"""Open the models that a suite names: each can then be asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from calipers.support.errors import UsageError
from calipers.systems.calls import System
from calipers.systems.chat_urls import CHAT
from calipers.systems.fleet import LeastLoaded
from calipers.systems.masked import Masked
from calipers.systems.masking import Mask
from calipers.systems.posting import Session, open_session
from calipers.systems.secrets import mask_for, read_key
from calipers.systems.spec import Served, ServedModel


@asynccontextmanager
async def open_models(models: Sequence[ServedModel]) -> AsyncIterator[list[System]]:
    """Open the models, in order."""
    mask = mask_for(models)
    async with open_session() as session:
        with mask_errors(mask):
            opened = [open_model(each.model, each, session, logprobs=False) for each in models]
        yield [Masked(each, mask) for each in opened]


@contextmanager
def mask_errors(mask: Mask) -> Iterator[None]:
    """Take keys out of what an SDK, or a file of Python, says when it cannot be loaded."""
    try:
        yield
    except UsageError as error:
        raise UsageError(mask(error.message), fix=mask(error.fix)) from None


def open_model(name: str, served: Served, session: Session, *, logprobs: bool) -> System:
    """Return the model behind its own server or servers, or behind its provider's."""
    key = read_key(served)
    opened = [
        _open_at(url, name, key, session, logprobs=logprobs) for url in served.urls or (None,)
    ]
    return opened[0] if len(opened) == 1 else LeastLoaded(opened)


def _open_at(
    url: str | None, name: str, key: str | None, session: Session, *, logprobs: bool
) -> System:
    if url is not None and name.partition(":")[0] in CHAT:
        from calipers.systems.chat import ChatModel  # noqa: PLC0415 (loads aiohttp)

        return ChatModel(session, name, url, key, logprobs=logprobs)
    from calipers.systems.providers import ProviderModel  # noqa: PLC0415 (an extra)

    return ProviderModel(session, name, url, key, logprobs=logprobs)
