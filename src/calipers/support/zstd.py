"""Python's own zstd; before Python 3.14 its backport, which is the same module."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdDecompressor, ZstdError

__all__ = ["ZstdDecompressor", "ZstdError"]
