"""Whole JSON objects in a text that may hold anything else, in bounded time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

MOST_TEXT = 200_000  # characters; more is not an answer
_MOST_TRIES = 1_000  # braces that begin no object


class NotRead(ValueError):  # noqa: N818 (reads as a sentence: "raise NotRead")
    """A text whose objects are not looked for further; the message says why."""


def find_objects(text: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each whole object that is not part of another, and its text.

    Raises:
        NotRead: the text is too long, has too many braces, or an object has a key twice or a
            number that is not finite.

    >>> [found for found, _ in find_objects('I say {"a": 1}, not {2}.')]
    [{'a': 1}]
    """
    if len(text) > MOST_TEXT:
        raise NotRead(f"it is longer than {MOST_TEXT:,} characters")
    decoder = json.JSONDecoder(
        object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant
    )
    at, tries = text.find("{"), 0
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except NotRead:
            raise
        except (ValueError, RecursionError):
            end, tries = at + 1, tries + 1
            if tries > _MOST_TRIES:
                raise NotRead("it has too many braces that begin no JSON object") from None
        else:
            yield found, text[at:end]
        at = text.find("{", end)


def _refuse_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise NotRead("a key is there twice")
        found[key] = value
    return found


def _refuse_constant(_: str) -> NoReturn:
    raise NotRead("a score is not a finite number")
