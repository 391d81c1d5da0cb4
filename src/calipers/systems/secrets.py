"""Keys and servers that the environment names: neither is written into the results."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from calipers.support.errors import UsageError
from calipers.systems.masking import LEAST, Mask
from calipers.systems.spec import NamedModel, Served

_STAND_INS = ("-", "dummy", "empty", "fake", "key", "local", "none", "null", "ollama", "test", "x")
_HOLDS_KEY = re.compile(r"(API|ACCESS)_?KEY(_?\d+)?$|AUTH_?TOKEN$", re.IGNORECASE)
# Variables of these names hold keys too, and words: those that look like words are let alone.
_MAY_HOLD_KEY = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(^|_)PAT$", re.IGNORECASE)
_PROXY = re.compile(r"_proxy$", re.IGNORECASE)
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^\s/\\]{16,}\Z", re.DOTALL)
_NAMES_SERVER = re.compile(r"([A-Z]+)_(\w+_)?(BASE_URL|API_BASE|ENDPOINT|ENDPOINT_URL|API_VERSION)")
_PREFIXES = {"azure": ("AZURE", "OPENAI"), "bedrock": ("AWS",)}


def mask_for(served: Iterable[Served] = ()) -> Mask:
    """Return the mask of the keys that these name, and of others in the environment."""
    every = list(served)
    in_suite = (secret for each in every for secret in _find_secrets(each))
    return Mask((*_find_keys({each.api_key_env for each in every}), *in_suite))


def _find_keys(named: set[str | None]) -> Iterator[str]:
    for name, value in os.environ.items():
        key = value.strip()
        if (
            name in named
            or _HOLDS_KEY.search(name)
            or (_MAY_HOLD_KEY.search(name) and _RANDOM.match(key))
        ):
            yield key
        elif _PROXY.search(name) and "@" in value:
            yield _find_password(value)


def _find_password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def _find_secrets(served: Served) -> Iterator[str]:
    """Yield what looks random in a suite's headers and URLs, where keys are refused by name."""
    settings: Mapping[str, Any] = getattr(served, "settings", None) or {}
    headers = settings.get("extra_headers")
    values = [str(each) for each in headers.values()] if isinstance(headers, dict) else []
    for url in (*served.urls, getattr(served, "http", None)):
        values += [value for _, value in parse_qsl(urlsplit(url or "").query)]
    yield from (value for value in values if _RANDOM.match(value))


def read_key(served: Served) -> str | None:
    """Return the key that a system names; raise UsageError if missing or too short to mask."""
    if served.api_key_env is None:
        return None
    key = os.environ.get(served.api_key_env, "").strip()
    if not key:
        raise UsageError(
            f"{served.api_key_env} is not set in the environment",
            fix=f"export {served.api_key_env}=…, or leave api_key_env out where no key is needed",
        )
    if len(key) < LEAST and key.lower() not in _STAND_INS:
        raise UsageError(
            f"{served.api_key_env} holds {len(key)} characters, too few to be told from other text "
            "and kept out of the results",
            fix=f"a key of {LEAST} or more; EMPTY where the server wants none",
        )
    return key


def hash_servers(models: Iterable[NamedModel]) -> dict[str, str]:
    """Return the variables that decide which server is asked, each with a hash of its value.

    Only those of the providers whose models have no `base_url` of their own. The value itself is
    not repeated: a URL may hold a password.
    """
    names = [each.model for each in models if each.model is not None and each.base_url is None]
    providers = {name.partition(":")[0].partition("-")[0] for name in names}
    prefixes = {prefix for each in providers for prefix in _PREFIXES.get(each, (each.upper(),))}
    return {
        name: sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        for name, value in sorted(os.environ.items())
        if (found := _NAMES_SERVER.fullmatch(name)) and found[1] in prefixes
    }
