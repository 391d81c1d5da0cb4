"""Which doctests cannot run here; any other import that fails is an error. Plug-ins of tests."""

from importlib.util import find_spec
from pathlib import Path

_NEED_TORCH = ("embeddings.py",)
_SEMANTIC = Path(__file__).parent / "src/calipers/metrics/similarity"

pytest_plugins = ["pytester"]
collect_ignore = [] if find_spec("torch") else [str(_SEMANTIC / name) for name in _NEED_TORCH]
collect_ignore_glob = ["src/calipers/runs/starter/files/*"]  # of several suites: names come twice
