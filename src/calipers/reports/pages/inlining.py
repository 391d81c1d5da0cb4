"""A page in one file: scripts and styles inside it, each allowed by its hash and nothing else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files


@cache
def read_static(name: str) -> str:
    """Return the text of one of our own files."""
    return files("calipers.reports.pages").joinpath("static", name).read_text(encoding="utf-8")


def make_policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return the content security policy: run exactly these texts, load and send nothing."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash_source, scripts))}",
            f"style-src {' '.join(map(_hash_source, styles))}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
