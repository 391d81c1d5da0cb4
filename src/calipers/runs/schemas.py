"""The JSON Schemas of suite and policy files, as editors and SchemaStore read them."""

from __future__ import annotations

from typing import Any

from calipers.gates.policy import make_model
from calipers.runs.suite import Suite
from calipers.support.version import __version__

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Files that are surely ours; `suite.yaml` and `policy.yaml` may be anyone's.
FILE_NAMES = {
    "suite": ("*.calipers.yaml", "*.calipers.yml", "calipers.yaml", "calipers.yml"),
    "policy": ("*.calipers-policy.yaml", "*.calipers-policy.yml"),
}


def make_schema(what: str) -> dict[str, Any]:
    """Return the schema of a `suite` or `policy` file; nothing is served at its `$id`."""
    found = Suite.model_json_schema() if what == "suite" else make_model().model_json_schema()
    head = {
        "$schema": DIALECT,
        "$id": f"urn:calipers:schema:{what}:{__version__}",
        "title": f"Calipers {what}",
    }
    return {**head, **{key: value for key, value in found.items() if key != "title"}}


def list_catalog() -> list[dict[str, Any]]:
    """Return the entries for SchemaStore's catalogue, with the addresses that it gives."""
    about = {"suite": "A Calipers suite: what to run and measure"}
    about["policy"] = "A Calipers policy: what a run must show to pass"
    return [
        {
            "name": f"Calipers {what}",
            "description": about[what],
            "fileMatch": list(names),
            "url": f"https://www.schemastore.org/calipers-{what}.json",
        }
        for what, names in FILE_NAMES.items()
    ]
