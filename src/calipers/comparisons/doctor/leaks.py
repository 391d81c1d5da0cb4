"""Inputs that give the target away: a word such as `Answer:` with the task's own target behind it.

Worked examples in a prompt also have answers in them, and a yes is soon found by chance. Each input
is therefore searched for the target of another task too: what is found as often is no leak.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

_MARK = re.compile(
    r"(?:\b(?:answer|solution|target|label|gold|ground[ _]truth|expected(?:[ _](?:output|answer))?)"
    r"(?:\s+is|\s*[:=])|####)[\s\"'(\[*$]{0,4}([^\s\"')\]*][^\n]{0,400})",
    re.IGNORECASE,
)
_LEAKS, _LEAKS_OTHER = "leaks", "leaks_other"


def mark_leaks(inputs: pl.Series, targets: pl.Series) -> Iterator[pl.Series]:
    """Yield, per record, whether its input gives its own target away, and whether another's.

    >>> inputs = pl.Series(["1 + 1? Answer: 2", "2 + 3? Answer: 5"])
    >>> [found.to_list() for found in mark_leaks(inputs, pl.Series(["2", "5"]))]
    [[True, True], [False, False]]
    """
    found: dict[int, tuple[bool, bool]] = {}
    marked = inputs.str.contains(f"(?i){_MARK.pattern}") if inputs.dtype == pl.String else None
    rows = [] if marked is None else marked.fill_null(value=False).arg_true().to_list()
    if rows and targets.null_count() < len(targets):
        others = _shift_targets(targets)
        for row in rows:
            target = targets[row]
            if target is not None and target.strip():
                tails = [each[1] for each in _MARK.finditer(inputs[row])]
                found[row] = _has_target(tails, target), _has_target(tails, others[row])
    for place, name in enumerate((_LEAKS, _LEAKS_OTHER)):
        values = pl.Series(name, [False], dtype=pl.Boolean).new_from_index(0, len(inputs))
        hits = [row for row, each in found.items() if each[place]]
        yield values.scatter(hits, values=True) if hits else values


def _shift_targets(targets: pl.Series) -> list[str | None]:
    """Return for each record a target of another one: the next that differs, round and round."""
    values = targets.to_list()
    distinct = [each for each in dict.fromkeys(values) if each is not None]
    after = dict(zip(distinct, [*distinct[1:], *distinct[:1]], strict=True))
    return [None if each is None or len(distinct) == 1 else after[each] for each in values]


def _has_target(tails: list[str], target: str | None) -> bool:
    """Say whether any of the texts begins with the target, and with no longer word."""
    if target is None:
        return False
    own = target.strip().casefold()
    return any(
        tail.casefold().startswith(own) and not tail[len(own) : len(own) + 1].isalnum()
        for tail in tails
    )
