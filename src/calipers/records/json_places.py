"""Values at some places of a large JSON document, one after another: all of it is never held.

A place is the path of keys to a value; `[]` stands for the elements of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from calipers.records.bytestream import OpenFile
from calipers.records.json_values import Text, open_text
from calipers.records.limits import get_limits

ELEMENT = "[]"
_DEEPEST = 4  # objects and lists within others that an outline enters

Place = tuple[str, ...]


def parse_places(*written: str) -> tuple[Place, ...]:
    """Return places as `stream_places` takes them.

    >>> parse_places("a.[]", "b.c")
    (('a', '[]'), ('b', 'c'))
    """
    return tuple(tuple(each.split(".")) for each in written)


def stream_places(
    path: Path, places: Collection[Place], *, large: bool = False
) -> Iterator[tuple[Place, Any, float]]:
    """Yield the values at the places, and all that stands beside them, in the order of the file.

    Each comes with where it is and the share of the file behind it. Documents may follow others.

    Args:
        path: The file, plain or compressed.
        places: Where the values are; those above them are not held.
        large: Whether a value at one of the places may be as large as a document.

    Raises:
        DataError: The text is not JSON, or a value is too large.
    """
    here = {*places}
    above = {each[:length] for each in places for length in range(len(each))} - here
    with open_text(path) as (text, opened):
        while True:
            for at, value in _walk(text, (), here, above, large=large):
                yield at, value, opened.share
            if not text.peek():
                return


def read_outline(path: Path) -> Any:
    """Return a JSON document with only the first element of each list.

    Raises:
        DataError: The text is not JSON, or longer than a document may be.
    """
    limits = get_limits()

    def take(text: Text, opened: OpenFile) -> Any:
        if opened.file.tell() > limits.document_bytes:
            raise limits.make_document_error(str(path))
        return text.take_value(large=True)

    with open_text(path) as (text, opened):
        return _outline(text, _DEEPEST, lambda: take(text, opened))


def _walk(
    text: Text, at: Place, here: set[Place], above: set[Place], *, large: bool
) -> Iterator[tuple[Place, Any]]:
    start = text.peek() if at in above else ""
    if start == "{":
        for name in text.walk_members():
            yield from _walk(text, (*at, name), here, above, large=large)
    elif start == "[":
        for _ in text.walk_elements():
            yield from _walk(text, (*at, ELEMENT), here, above, large=large)
    else:
        is_beside = at not in here and at not in above
        yield at, text.take_value(large=large or is_beside)


def _outline(text: Text, depth: int, take: Callable[[], Any]) -> Any:
    start = text.peek()
    if start == "{" and depth:
        return {name: _outline(text, depth - 1, take) for name in text.walk_members()}
    if start != "[" or not depth:
        return take()
    first: list[Any] = []
    for _ in text.walk_elements():
        if first:
            take()
        else:
            first.append(_outline(text, depth - 1, take))
    return first
