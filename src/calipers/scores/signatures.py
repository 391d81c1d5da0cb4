"""Signatures of the public functions that share the options of `score`."""

from __future__ import annotations

from collections.abc import Callable

from calipers.records.signatures import F, declare_keywords
from calipers.scores.options import list_options


def declare_signature(command: str, own: type | None = None) -> Callable[[F], F]:
    """Give a function with `**options` the signature of a command's declared options.

    Those that only this command has are the fields of the dataclass `own`.
    """
    return declare_keywords(command, list_options(command, own), list_options(command))
