"""The metric settings that a run was measured by, so that its pages show the same numbers."""

from __future__ import annotations

from pathlib import Path

from calipers.dashboard.kept import read_once
from calipers.metrics.declare.settings import Settings
from calipers.records.result_folder import MANIFEST

_NEEDS_A_MODEL = "success_threshold"  # of what no page shows


def read_run_settings(folder: Path | None) -> Settings:
    """Return the metric settings of a result folder; the defaults where it is none.

    Raises:
        CalipersError: A file that they name is gone, or can no longer be read.
    """
    known = folder is not None and (folder / MANIFEST).exists()
    return _read(folder / MANIFEST) if folder is not None and known else Settings()


@read_once(10_000)
def _read(manifest: Path) -> Settings:
    from calipers.scores.choices import Layer, merge_layers, run_layers  # noqa: PLC0415 (loads Polars)

    return merge_layers(
        Layer(each.source, {k: v for k, v in each.values.items() if k != _NEEDS_A_MODEL})
        for each in run_layers(manifest.parent)
    ).settings
