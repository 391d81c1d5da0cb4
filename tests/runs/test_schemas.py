"""`calipers schema`: what editors and SchemaStore need."""

from __future__ import annotations

import json

from tests.commands import run


def test_schemas_name_themselves_for_editors_and_schemastore() -> None:
    ids = {json.loads(run("schema", what).stdout)["$id"] for what in ("suite", "policy")}
    assert len(ids) == 2
    assert all(each.startswith("urn:calipers:schema:") for each in ids)
    entries = json.loads(run("schema", "catalog").stdout)
    assert [set(entry) for entry in entries] == [{"name", "description", "fileMatch", "url"}] * 2
