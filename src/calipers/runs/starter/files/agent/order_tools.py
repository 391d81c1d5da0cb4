"""The tools of the order desk; a fixed list of orders stands for the shop's database."""

ORDERS = {"1001": "shipped", "1002": "packed", "1003": "delivered"}


def look_up_order(order: str) -> dict[str, str | None]:
    """Return the status of an order, None where there is none of that number."""
    return {"order": order, "status": ORDERS.get(str(order))}


def cancel_order(order: str) -> dict[str, str]:
    """Say that the order is cancelled; that this was allowed is for the agent to see to."""
    return {"order": order, "status": "cancelled"}
