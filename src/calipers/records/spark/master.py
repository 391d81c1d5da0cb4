"""Where Spark runs, as the user says."""

from __future__ import annotations

import os
from contextvars import ContextVar

_REMOTE = "sc://"
_MASTER: ContextVar[str | None] = ContextVar("master", default=None)


def choose_master(address: str) -> str:
    """Remember the cluster that a session is started on: a master's URL, or `sc://…`."""
    _MASTER.set(address)
    return address


def get_master() -> str | None:
    """Return the address that was chosen, or None."""
    return _MASTER.get()


def is_remote(address: str | None) -> bool:
    """Say whether a session is one of Spark Connect: by its address, or by SPARK_REMOTE."""
    return address.startswith(_REMOTE) if address else bool(os.environ.get("SPARK_REMOTE"))
