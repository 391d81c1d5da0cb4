"""A stand-in for a system: it gives every task the same answer. Put your own in its place."""

from typing import Any

ANSWER = "?"


def answer(record: dict[str, Any]) -> str:
    """Return the answer to a task: `record` has its fields, `record["prompt"]` what is asked."""
    del record
    return ANSWER
