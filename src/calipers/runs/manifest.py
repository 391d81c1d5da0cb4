"""The manifest of a result folder: suite, data, code, versions, prices."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.runs.code_under_test import hash_code
from calipers.runs.suite import Suite
from calipers.support.version import __version__
from calipers.systems.pricing import find_pricing
from calipers.systems.secrets import hash_servers, mask_for

if TYPE_CHECKING:
    from calipers.runs.preparing import Prepared

SCHEMA = "calipers.run/1"
ANSWERS = "answers"  # how many answers of the last run are new, how many were there before
CHECKS = "checks"  # a hash of the checks that were applied to the records
FRESH = "fresh"  # started with --fresh: no reply comes from a cache
IMPORTED = "imported"  # local modules that the systems were seen to import, beside `files`
SHARD = "shard"  # I/N, of a run that makes a part of the calls
SUITE_FILE = "suite_file"  # of such a run, relative to its folder: merging looks there
ORDER_SEED = "order_seed"  # that draws the tasks, of a run until the gate is decided

_USER = "the simulated user"  # among the systems
_PACKAGES = ("pydantic-ai-slim", "openai", "anthropic", "aiohttp", "genai-prices")


def make_manifest(of: Prepared) -> dict[str, Any]:
    """Return the manifest of a run that begins now, masked."""
    suite, base, tasks, checks = of.suite, of.base, of.plan.tasks, of.checks.hash()
    known = [(system.name, each) for system, each in zip(suite.systems, of.prices, strict=True)]
    seeds = {system.name: system.settings.get("seed") for system in suite.systems}
    if suite.user is not None:
        known.append((_USER, find_pricing(suite.user)))
        seeds[_USER] = suite.user.settings_of(run=1).get("seed")
    judges = zip(suite.judges, of.rubrics, strict=True)
    models = [model for judge in suite.judges for model in judge.models]
    found = {
        "schema": SCHEMA,
        "version": __version__,
        "suite": suite.model_dump(mode="json"),
        "data": {
            "path": suite.data,
            "sha256": tasks.sha256,
            "tasks": len(tasks),
            **({} if tasks.drawn_from is None else {"drawn_from": tasks.drawn_from}),
        },
        "files": {
            **hash_code(suite, base),
            **_hash_policy(suite, base),
            **of.plan.images.hashes(base),
        },
        "versions": dict(_list_versions()),
        "seed": seeds,
        "prices": {name: each.to_dict() for name, each in known if each is not None},
        "servers": hash_servers((*suite.systems, *models, *filter(None, (suite.user,)))),
        **({CHECKS: checks} if checks else {}),
        **({"rubrics": {judge.name: each.hash for judge, each in judges}} if of.rubrics else {}),
    }
    return mask_for(suite.served).mask_value(found)  # type: ignore[no-any-return]


def _hash_policy(suite: Suite, base: Path) -> dict[str, str]:
    if suite.policy is None:
        return {}
    return {suite.policy: sha256((base / suite.policy).read_bytes()).hexdigest()}


def _list_versions() -> Iterator[tuple[str, str]]:
    yield "python", platform.python_version()
    for package in _PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
