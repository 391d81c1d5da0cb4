"""The metric settings of a run: those of its suite, and those of its policy, which win."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calipers.metrics.checks.checks import Checks
from calipers.metrics.declare.settings import list_metric_options
from calipers.runs.suite import Suite
from calipers.scores.choices import (
    POLICY,
    SUITE,
    Layer,
    is_path,
    locate,
    merge_layers,
    read_policy_layer,
)
from calipers.scores.options import Options

STORED = "metric_settings"  # the key of the manifest


def read_options(suite: Suite, base: Path, **plain: Any) -> Options:
    """Return the options that a suite is measured by; `plain` are further fields of them."""
    return merge_layers(_list_layers(suite, base).values(), **plain)


def list_stored(suite: Suite, base: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the settings that the manifest keeps, so that later scores use the same.

    Paths are relative to the result folder.
    """
    layers = _list_layers(suite, base)
    return {kind: _relativize(layer.values, folder) for kind, layer in layers.items()}


def _list_layers(suite: Suite, base: Path) -> dict[str, Layer]:
    found = {SUITE: Layer("the suite", locate(suite.metric_settings, base))}
    if suite.policy is not None:
        found[POLICY] = read_policy_layer(base / suite.policy)
    return found


def _relativize(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    known = list_metric_options()
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Checks):
            if value.is_portable:  # what rests on files of one's own is applied where it is named
                found[name] = value.to_list()
        elif is_path(known[name], value, Path()):
            found[name] = os.path.relpath(value, folder)
        else:
            found[name] = value
    return found
