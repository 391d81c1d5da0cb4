"""Keys come from the environment and stay there: whatever is written or shown goes through here.

>>> Mask(["my-secret-key"])("the key my-secret-key is invalid, as is Bearer abcdefghijkl")
'the key *** is invalid, as is Bearer ***'
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator

from calipers.errors import UsageError
from calipers.suites import Served, Suite

MASKED = "***"

_AT_LEAST = 8  # characters of a key: a shorter one may be a word, and masking would spoil answers
_STAND_INS = ("-", "dummy", "empty", "fake", "key", "local", "none", "null", "ollama", "test", "x")
_HOLDS_KEY = re.compile(r"API_?KEY$|ACCESS_?KEY$|AUTH_?TOKEN$", re.IGNORECASE)
_LOOKS_LIKE_KEY = re.compile(
    r"(?P<before>\bBearer\s+|[?&](?:api_?key|key|token)=)[^\s&\"']{6,}|\bsk-[A-Za-z0-9_-]{8,}",
    re.IGNORECASE,
)


class Mask:
    """Replaces keys by ***."""

    def __init__(self, keys: Iterable[str]) -> None:
        plain = {key for key in keys if len(key) >= _AT_LEAST}
        escaped = {json.dumps(key, ensure_ascii=False)[1:-1] for key in plain}
        self._keys = sorted(plain | escaped, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """A message without keys, and without what looks like one."""
        return _LOOKS_LIKE_KEY.sub(rf"\g<before>{MASKED}", self.exact(text))

    def exact(self, text: str) -> str:
        """A text without the keys that are known; nothing else of it changes."""
        for key in self._keys:
            if key in text:
                text = text.replace(key, MASKED)
        return text


def mask_of(suite: Suite) -> Mask:
    """The mask of the keys that a suite names, and of others in the environment."""
    return mask_for((*suite.systems, *(model for each in suite.judges for model in each.models)))


def mask_for(served: Iterable[Served]) -> Mask:
    """The mask of the keys that these name, and of others in the environment."""
    return Mask(_keys({each.api_key_env for each in served}))


def _keys(named: set[str | None]) -> Iterator[str]:
    for name, value in os.environ.items():
        if name in named or _HOLDS_KEY.search(name):
            yield value.strip()


def key_of(served: Served) -> str | None:
    """The key that a system names; one that is not there, or cannot be masked, is refused."""
    if served.api_key_env is None:
        return None
    key = os.environ.get(served.api_key_env, "").strip()
    if not key:
        raise UsageError(
            f"{served.api_key_env} is not set in the environment",
            fix=f"export {served.api_key_env}=…, or leave api_key_env out where no key is needed",
        )
    if len(key) < _AT_LEAST and key.lower() not in _STAND_INS:
        raise UsageError(
            f"{served.api_key_env} holds {len(key)} characters, too few to be told from other text "
            "and kept out of the results",
            fix=f"a key of {_AT_LEAST} or more; EMPTY where the server wants none",
        )
    return key
