"""A check of one's own: an answer holds no number that the passages do not hold."""

import re
from typing import Any

NUMBER = re.compile(r"\d+(?:\.\d+)?")


def is_grounded(record: dict[str, Any]) -> bool:
    """Return True if every number of the answer stands in the passages or in the question."""
    given = set(NUMBER.findall(f"{record['passages']} {record['input']}"))
    return set(NUMBER.findall(record["answer"] or "")) <= given
