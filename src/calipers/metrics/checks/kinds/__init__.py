"""Every kind of check, by its key."""

from __future__ import annotations

from calipers.metrics.checks.kind import ReplyTest
from calipers.metrics.checks.kinds import (
    json_texts,
    language,
    numbers,
    own,
    pii,
    refusal,
    similar,
    texts,
    tools,
)

_FILES = (texts, numbers, json_texts, similar, tools, pii, refusal, language, own)

KINDS: dict[str, type[ReplyTest]] = {kind.key: kind for file in _FILES for kind in file.KINDS}
"""What a check may test; a plug-in adds its own under a key of its own."""
