"""Names of models as providers write them: case, the provider before it, the date behind it.

>>> [name for name in list_spellings("OpenAI/gpt-4o-2024-08-06")]
['openai/gpt-4o-2024-08-06', 'gpt-4o-2024-08-06', 'openai/gpt-4o', 'gpt-4o']
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

_PATH = re.compile(r"(?:[^/:]+[/:])+(?=[^/:])")
_BEDROCK = re.compile(
    r"(?:(?:us|eu|apac|jp|au|global|us-gov)\.)?"
    r"(?:ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\."
)
_VERSION = re.compile(r"-v\d+(?::\d+)?$")
_DATE = re.compile(r"[-@:_](?:20\d\d-?(?:0[1-9]|1[0-2])-?\d\d|(?:0[1-9]|1[0-2])[0-3]\d|latest)$")

T = TypeVar("T")


def find_named(model: str, table: Mapping[str, T]) -> T | None:
    """Return what a table has under the model's name, or under the nearest spelling of it.

    An exact name goes first, then another case, a name without its provider, one without its date.
    A name in the table may leave out the provider and the date, or have a provider where the
    model's has none; of entries that are equally near and differ, none is taken.
    """
    if model in table:
        return table[model]
    lowered = [(name.lower(), entry) for name, entry in table.items()]
    names_provider = _strip_provider(model.lower()) != model.lower()
    for spelling in list_spellings(model):
        near = [entry for name, entry in lowered if name == spelling]
        if not near and not names_provider:
            near = [entry for name, entry in lowered if _strip_provider(name) == spelling]
        if near:
            return near[0] if all(each == near[0] for each in near) else None
    return None


def list_spellings(model: str) -> Iterator[str]:
    """Yield ways to write a model's name, the most exact first, in lower case."""
    lowered = _VERSION.sub("", model.lower()) if _BEDROCK.search(model.lower()) else model.lower()
    undated = _DATE.sub("", lowered)
    known: dict[str, None] = {model.lower(): None}
    for name in (lowered, undated):
        known |= {name: None, _strip_provider(name): None}
    yield from known


def _strip_provider(name: str) -> str:
    return _BEDROCK.sub("", _PATH.sub("", name, count=1), count=1)
