"""Where a server that speaks OpenAI's chat completions takes requests, and how it takes keys."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from calipers.support.errors import UsageError

CHAT = ("openai", "openai-chat", "openrouter", "azure")
"""Providers whose models are asked straight where a `base_url` is given."""

_PATH = "/chat/completions"
_VERSION = "api-version"
_VERSION_ENV = "OPENAI_API_VERSION"


def make_chat_url(provider: str, model: str, base_url: str) -> str:
    """Return the URL that requests go to; what a query string in `base_url` says stays there.

    Raises:
        UsageError: Azure needs the version of its API, and nothing says it.

    >>> make_chat_url("openai", "tiny", "http://127.0.0.1:8000/v1/?tenant=a")
    'http://127.0.0.1:8000/v1/chat/completions?tenant=a'
    >>> make_chat_url("azure", "mine", "https://x.example?api-version=2024-10-21")
    'https://x.example/openai/deployments/mine/chat/completions?api-version=2024-10-21'
    """
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    query = parse_qsl(parts.query, keep_blank_values=True)
    if provider == "azure" and not path.endswith("/v1"):
        if "/deployments/" not in path:
            path = f"{path.removesuffix('/openai')}/openai/deployments/{quote(model, safe='')}"
        if _VERSION not in dict(query):
            query.append((_VERSION, _read_version(base_url)))
    return urlunsplit(parts._replace(path=f"{path}{_PATH}", query=urlencode(query), fragment=""))


def make_key_header(provider: str, key: str | None) -> dict[str, str]:
    """Return the header that carries a key; none without one."""
    if key is None:
        return {}
    return {"api-key": key} if provider == "azure" else {"Authorization": f"Bearer {key}"}


def _read_version(base_url: str) -> str:
    if version := os.environ.get(_VERSION_ENV):
        return version
    host = urlsplit(base_url).hostname or "NAME.openai.azure.com"
    raise UsageError(
        "azure: nothing says which version of its API to speak",
        fix=f"set {_VERSION_ENV}, or write it into base_url: "
        f"https://{host}?{_VERSION}=2024-10-21; or take the path /openai/v1",
    )
