"""A small order desk, to have something to measure: put your own system in its place."""

import re
from typing import Any

ORDERS = {"1001": "shipped", "1002": "packed", "1003": "delivered"}


def answer(record: dict[str, Any]) -> dict[str, Any]:
    """Answer `input`, and log what was done: the behaviors that the scenario expects."""
    message = record["input"].lower()
    done: list[str] = []
    broken: list[str] = []
    text = _reply(message, done)
    if "cancel_order" in done and _status(message) in ("shipped", "delivered"):
        broken.append("cancelled_after_shipping")
    return {"answer": text, "observed_behaviors": done, "violations": broken}


def _reply(message: str, done: list[str]) -> str:
    if "every order" in message:
        done.append("decline")
        return "not possible"
    if "hours" in message:
        done.append("state_hours")
        return "9 to 17"
    if not re.search(r"\d", message):
        done.append("ask_for_number")
        return "number needed"
    done.append("look_up_order")
    status = _status(message)
    if status is None:
        done.append("say_unknown")
        return "unknown"
    if "cancel" not in message:
        done.append("state_status")
        return status
    done.append("cancel_order" if status == "packed" else "decline")
    return "cancelled" if status == "packed" else "not possible"


def _status(message: str) -> str | None:
    number = re.search(r"\d+", message)
    return ORDERS.get(number.group()) if number else None
