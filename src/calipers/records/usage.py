"""Token usage of one run by model, in any of the shapes that tools write.

A mapping from model to counts, a list of counts each with its `model`, or the counts of the
record's own model, as a provider's reply has them:

>>> read_usage('{"small": {"input_tokens": 10, "output_tokens": 2}, "large": {"costUSD": 0.25}}')[1]
{'model': 'large', 'cost_usd': 0.25}
>>> read_usage('{"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}')
[{'prompt_tokens': 10.0, 'completion_tokens': 2.0}]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from calipers.records.fields import FIELDS, BadValue, load_nested

_NAMES = {  # ours, then those of Anthropic, OpenAI, Claude Code and Inspect
    "prompt_tokens": ("input_tokens", "inputTokens"),
    "completion_tokens": ("output_tokens", "outputTokens"),
    "cache_read_tokens": (
        *("cache_read_input_tokens", "cacheReadInputTokens", "input_tokens_cache_read"),
    ),
    "cache_write_tokens": (
        *("cache_creation_input_tokens", "cacheCreationInputTokens", "input_tokens_cache_write"),
    ),
    "cost_usd": ("costUSD", "total_cost_usd", "total_cost"),
}
_DETAILS = ("prompt_tokens_details", "input_tokens_details")  # of OpenAI's
_CACHED = "cached_tokens"  # in these: they are among those of the prompt
_OF_ONE_CALL = {"total_tokens", *_NAMES, *(name for names in _NAMES.values() for name in names)}

_NOT_COUNTS = "not a mapping from model to its tokens"

Call = dict[str, Any]


def read_usage(usage: Any) -> list[Call]:
    """Return the calls in a record's `usage`, or its JSON; raise BadValue with the reason."""
    return list(list_calls(load_nested(usage, _NOT_COUNTS)))


def list_calls(found: Any) -> Iterator[Call]:
    """Yield each model's counts in a decoded usage; without `model` if it is not named."""
    if isinstance(found, Mapping) and not _OF_ONE_CALL.isdisjoint(found):
        yield count_call(found)
        return
    if isinstance(found, Mapping):
        entries: Iterable[tuple[Any, Any]] = found.items()
    elif isinstance(found, list):
        entries = (
            (each.get("model") if isinstance(each, Mapping) else None, each) for each in found
        )
    else:
        raise BadValue(_NOT_COUNTS)
    for model, counts in entries:
        if not isinstance(model, str) or not isinstance(counts, Mapping):
            raise BadValue("an entry that is not a model with its tokens")
        yield {"model": model, **count_call(counts)}


def count_call(counts: Mapping[str, Any]) -> dict[str, float]:
    """Return tokens and cost of one call, under the record's names."""
    found: dict[str, float] = {}
    for ours, theirs in _NAMES.items():
        name = next((each for each in (ours, *theirs) if counts.get(each) is not None), None)
        if name is not None:
            found[ours] = _read_count(ours, counts[name], name)
    if "cache_read_tokens" not in found and (cached := _count_cached(counts)):
        found["cache_read_tokens"] = cached
        if "prompt_tokens" in found:
            found["prompt_tokens"] = max(0.0, found["prompt_tokens"] - cached)
    return found


def _count_cached(counts: Mapping[str, Any]) -> float | None:
    for group in _DETAILS:
        details = counts.get(group)
        if isinstance(details, Mapping) and details.get(_CACHED) is not None:
            return _read_count("cache_read_tokens", details[_CACHED], f"{group}.{_CACHED}")
    return None


def _read_count(ours: str, value: Any, place: str) -> float:
    try:
        count: float = FIELDS[ours].read(value)
    except BadValue as problem:
        raise BadValue(f"{place}: {problem}") from None
    return count
