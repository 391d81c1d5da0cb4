"""`calipers schema`."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("what", type=click.Choice(("policy", "suite")))
def schema(what: str) -> None:
    """Print the JSON Schema of a suite or policy file, for completion and checks in editors."""
    if what == "policy":
        from calipers.gates.policy import make_model  # noqa: PLC0415 (loads Polars)

        found = make_model().model_json_schema()
    else:
        from calipers.runs.suite import Suite  # noqa: PLC0415 (loads Polars)

        found = Suite.model_json_schema()
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}
    click.echo(json.dumps(found, indent=1, ensure_ascii=False))
