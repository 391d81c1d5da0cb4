"""A small order desk, to have something to measure: put your own agent in its place."""

import re
from typing import Any

from order_tools import cancel_order, look_up_order


def answer(record: dict[str, Any]) -> dict[str, Any]:
    """Answer what the user says now; the trace lists the tools that were called."""
    calls: list[dict[str, Any]] = []
    text = _reply(record["prompt"].lower(), calls)
    return {"answer": text, "trace": {"tool_calls": calls}}


def _reply(message: str, calls: list[dict[str, Any]]) -> str:
    number = re.search(r"\d+", message)
    if not number:
        return _without_number(message)
    order = number.group()
    calls.append({"tool_name": "look_up_order", "args": {"order": order}, "context": message})
    status = look_up_order(order)["status"]
    if status is None:
        return f"There is no order {order}: it is unknown here."
    if "cancel" not in message:
        return f"Order {order} is {status}."
    if status == "packed":
        calls.append({"tool_name": "cancel_order", "args": {"order": order}, "context": message})
        return f"Order {order} is {cancel_order(order)['status']}."
    return f"Order {order} is {status} and cannot be cancelled."


def _without_number(message: str) -> str:
    if "every order" in message:
        return "I cannot list orders."
    if "hours" in message:
        return "We are open from 9 to 17."
    return "Which order is it? Please tell me its number."
