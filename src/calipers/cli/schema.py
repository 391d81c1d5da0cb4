"""`calipers schema`."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("what", type=click.Choice(("policy", "suite", "catalog")))
def schema(what: str) -> None:
    """Print the JSON Schema of a suite or policy file, for completion and checks in editors.

    `catalog` prints the entries of both for the catalogue of SchemaStore.
    """
    from calipers.runs import suite  # noqa: PLC0415 (loads Polars)

    document = suite.list_schema_catalog() if what == "catalog" else suite.make_schema(what)
    click.echo(json.dumps(document, indent=1, ensure_ascii=False))
