"""A gate's verdict read back from the JSON that it was written to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from calipers.gates.policy_values import share_scale
from calipers.gates.result import CHANGED, SCHEMA, GateResult
from calipers.metrics import metric_named
from calipers.metrics.thresholds import read_scale
from calipers.support.errors import UsageError
from calipers.support.stored import read_number, read_stored

Json = Mapping[str, Any]


def read_gate(found: Json | None) -> GateResult | None:
    """Return the verdict in a parsed `gate.json`; None where it is none, or of another version."""
    if found is None or found.get("schema") != SCHEMA:
        return None
    return read_stored(GateResult, found, _read_fields)


def _read_fields(found: Json) -> Json:
    early = found.get("until_decided")
    return {
        **found,
        "checks": [_read_check(each) for each in found["checks"]],
        "changes": [
            {**each, **{name: _read_ids(each[name]) for name in CHANGED}}
            for each in found.get("changes", ())
        ],
        "early": None if early is None else {**early, **early["calls"]},
    }


def _read_check(found: Json) -> Json:
    about = found.get("n", 0) + found.get("missing", 0)
    sequence = found.get("sequence")
    return {
        "source": "",
        **found,
        **{name: read_number(found[name]) for name in ("value", "low", "high")},
        "threshold": None if found["threshold"] is None else _read_threshold(found),
        "undecided": {"count": found.get("undecided", 0), "of": about},
        "failing": _read_ids(found.get("failing")),
        "sequence": None if sequence is None else {**sequence, "name": found["name"]},
    }


def _read_threshold(found: Json) -> Json:
    """Return the requirement; a name that is not a metric is that of a share, as a category's."""
    try:
        scale = read_scale(metric_named(found["name"]))
    except UsageError:
        scale = share_scale(found["name"])
    return {"operator": found["operator"], "value": found["threshold"], "scale": asdict(scale)}


def _read_ids(found: Json | None) -> Json:
    return {} if found is None else {"count": found["count"], "first": found["ids"]}
