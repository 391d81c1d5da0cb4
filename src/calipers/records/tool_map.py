"""The field `optimal_tools` of a record: the best tool for each context.

>>> read_tool_map('{"find": 3}')
Traceback (most recent call last):
calipers.records.fields.BadValue: find: 3 is not the name of a tool
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from calipers.records.fields import BadValue, Number, dump_json


def read_tool_map(value: Any) -> Mapping[str, str]:
    """Return the tools by context, of an object or its JSON; BadValue says what is wrong."""
    try:
        is_json = isinstance(value, str) and not isinstance(value, Number)
        found = json.loads(value) if is_json else value
    except (ValueError, RecursionError):
        raise BadValue("not JSON") from None
    if not isinstance(found, Mapping) or not found:
        raise BadValue('no object of contexts and tools, for example {"*": "search"}')
    for context, tool in found.items():
        if isinstance(tool, Number) or not isinstance(tool, str):
            raise BadValue(f"{context}: {dump_json(tool)[:60]} is not the name of a tool")
    return found
