"""API keys and servers from the environment: read, kept out of the results, masked in replies.

Neither keys nor server addresses are written into the results. Everything that a system says passes
through `MaskedSystem` before it is cut, written or shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from threading import Lock
from typing import Any, TextIO
from urllib.parse import parse_qsl, urlsplit

from calipers.support.errors import UsageError
from calipers.systems.calls import Call, Fault, Reply, System
from calipers.systems.redact import SHORTEST_KEY, Mask
from calipers.systems.spec import McpServerSpec, NamedModel, Served

_STAND_INS = ("-", "dummy", "empty", "fake", "key", "local", "none", "null", "ollama", "test", "x")
_HOLDS_KEY = re.compile(r"(API|ACCESS)_?KEY(_?\d+)?$|AUTH_?TOKEN$", re.IGNORECASE)
# Variables of these names hold keys too, and words: those that look like words are let alone.
_MAY_HOLD_KEY = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(^|_)PAT$", re.IGNORECASE)
_PROXY = re.compile(r"_proxy$", re.IGNORECASE)
_LOOKS_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^\s/\\]{16,}\Z", re.DOTALL)
_NAMES_SERVER = re.compile(r"([A-Z]+)_(\w+_)?(BASE_URL|API_BASE|ENDPOINT|ENDPOINT_URL|API_VERSION)")
_PREFIXES = {"azure": ("AZURE", "OPENAI"), "bedrock": ("AWS",)}


def make_mask(served: Iterable[Served | McpServerSpec] = ()) -> Mask:
    """Return the mask of the keys that these name, and of others in the environment."""
    every = list(served)
    in_suite = (secret for system in every for secret in _find_secrets(system))
    named = {name for system in every for name in system.key_variables}
    return Mask((*_find_keys(named), *in_suite))


def _find_keys(named: set[str]) -> Iterator[str]:
    for name, value in os.environ.items():
        key = value.strip()
        if (
            name in named
            or _HOLDS_KEY.search(name)
            or (_MAY_HOLD_KEY.search(name) and _LOOKS_RANDOM.match(key))
        ):
            yield key
        elif _PROXY.search(name) and "@" in value:
            yield _find_password(value)


def _find_password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def _find_secrets(served: Served | McpServerSpec) -> Iterator[str]:
    """Yield what looks random in a suite's headers and URLs, where keys are refused by name."""
    settings: Mapping[str, Any] = getattr(served, "settings", None) or {}
    headers = settings.get("extra_headers")
    values = [str(header) for header in headers.values()] if isinstance(headers, dict) else []
    for url in (*served.urls, getattr(served, "http", None)):
        values += [value for _, value in parse_qsl(urlsplit(url or "").query)]
    yield from (value for value in values if _LOOKS_RANDOM.match(value))


def read_api_key(served: Served | McpServerSpec) -> str | None:
    """Return the key that a system names; raise UsageError if missing or too short to mask."""
    if served.api_key_env is None:
        return None
    key = os.environ.get(served.api_key_env, "").strip()
    if not key:
        raise UsageError(
            f"{served.api_key_env} is not set in the environment",
            fix=f"export {served.api_key_env}=…, or leave api_key_env out where no key is needed",
        )
    if not key.isprintable():
        raise UsageError(
            f"{served.api_key_env} holds a line end or another control character",
            fix="set it again, without what stands around the key",
        )
    if len(key) < SHORTEST_KEY and key.lower() not in _STAND_INS:
        raise UsageError(
            f"{served.api_key_env} holds {len(key)} characters, too few to be told from other text "
            "and kept out of the results",
            fix=f"a key of {SHORTEST_KEY} or more; EMPTY where the server wants none",
        )
    return key


def hash_servers(models: Iterable[NamedModel]) -> dict[str, str]:
    """Return the variables that decide which server is asked, each with a hash of its value.

    Only those of the providers whose models have no `base_url` of their own. The value itself is
    not repeated: a URL may hold a password.
    """
    names = [model.model for model in models if model.model is not None and model.base_url is None]
    providers = {name.partition(":")[0].partition("-")[0] for name in names}
    prefixes = {
        prefix for provider in providers for prefix in _PREFIXES.get(provider, (provider.upper(),))
    }
    return {
        name: sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        for name, value in sorted(os.environ.items())
        if (match := _NAMES_SERVER.fullmatch(name)) and match[1] in prefixes
    }


_LONGEST = 1 << 16  # characters of a line that are held back


class MaskedSystem:
    """A system behind a mask. Whatever comes back is masked whole, and only then cut or read."""

    def __init__(self, system: System, mask: Mask) -> None:
        self._system = system
        self._mask = mask

    async def __call__(self, call: Call) -> Reply:
        """Return the reply, or raise a Fault, without keys; no other error comes through."""
        try:
            return mask_reply(await self._system(call), self._mask)
        except Fault as fault:
            raise fault.mask(self._mask) from None
        except TimeoutError:
            raise
        except RecursionError:
            raise Fault("bad_response", "nested too deep") from None
        except Exception as error:  # noqa: BLE001 (of systems that people write)
            problem = f"{type(error).__name__}: {error}"
            raise Fault("exception", problem).mask(self._mask) from None


def mask_reply(reply: Reply, mask: Mask) -> Reply:
    """Return a reply without keys; without log probabilities where a key is spread over tokens."""
    spoken = "".join(token for token, _ in reply.logprobs)
    fields, messages = dict(reply.fields), list(reply.messages)
    whole = (reply.text, fields, reply.reasoning, spoken, messages)
    if mask.is_clean(whole):
        if not (messages or reply.tool_calls or reply.state is not None):
            return reply
        return replace(reply, fields=fields, tool_calls=(), messages=messages, state=None)
    return replace(
        reply,
        text=None if reply.text is None else mask.mask_text(reply.text),
        fields=mask.mask_value(fields),
        reasoning=None if reply.reasoning is None else mask.mask_text(reply.reasoning),
        logprobs=reply.logprobs if mask.mask_text(spoken) == spoken else (),
        tool_calls=(),
        messages=mask.mask_value(messages),
        state=None,
    )


class MaskedLines:
    """A stream whose lines are masked: what functions under test print."""

    def __init__(self, stream: TextIO, mask: Mask) -> None:
        self._stream = stream
        self._mask = mask
        self._begun = ""  # a line without its end
        self._lock = Lock()  # functions print from threads of their own

    def write(self, text: str) -> int:
        """Write the lines that are whole; a long one is not waited for."""
        with self._lock:
            whole, _, self._begun = (self._begun + text).rpartition("\n")
            if len(self._begun) > _LONGEST:
                whole, self._begun = whole + self._begun, ""
            if whole:
                self._stream.write(f"{self._mask(whole)}\n")
        return len(text)

    def flush(self) -> None:
        """Flush the lines that are whole."""
        self._stream.flush()

    def close_line(self) -> None:
        """Write what is left, with an end to it."""
        if self._begun:
            self.write("\n")

    def isatty(self) -> bool:
        """Return False: it is no terminal."""
        return False
