"""Build the native library (native/) into the package, where Rust is at hand.

Without a Rust compiler, or with CALIPERS_NATIVE=0, the package is pure Python and gives the same
numbers, slower. CALIPERS_NATIVE=1 makes a build without the library fail. Nothing is downloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCE = "native/src/lib.rs"
_FOLDER = "calipers/support"  # native.py there loads it
_LIBRARY = "calipers.native"
_COMPILE = (
    *("rustc", "--edition=2021", "--crate-name=calipers_equations", "--crate-type=cdylib"),
    *("-Copt-level=3", "-Ccodegen-units=1", "-Clto=fat", "-Cstrip=symbols"),
)


class NativeBuildHook(BuildHookInterface):
    """Compiles the library before a wheel, or an editable install, is made."""

    _folder: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the library and the platform's tag to a wheel; put it beside the sources if editable.

        Raises:
            RuntimeError: The library was asked for, and cannot be built.
        """
        asked = os.environ.get("CALIPERS_NATIVE")
        if asked == "0":
            return
        self._folder = Path(mkdtemp(prefix="calipers-native-"))
        library = self._folder / _LIBRARY
        if reason := _compile(Path(self.root), library):
            if asked == "1":
                raise RuntimeError(f"the native library cannot be built: {reason}")
            self.app.display_warning(f"Building without the native library: {reason}")
        elif version == "editable":
            # Moved there, not written there: a running process keeps the one it has loaded.
            target = Path(self.root, "src", _FOLDER, _LIBRARY)
            unfinished = target.with_suffix(".unfinished")
            shutil.copyfile(library, unfinished)
            unfinished.replace(target)
        else:
            build_data["force_include"][str(library)] = f"{_FOLDER}/{_LIBRARY}"
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, which the wheel has now."""
        del version, build_data, artifact_path
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _compile(root: Path, library: Path) -> str | None:
    """Compile the library; return why that failed, None if it did not."""
    if not shutil.which(_COMPILE[0]):
        return "there is no rustc on the path"
    command = (*_COMPILE, "-o", str(library), str(root / _SOURCE))
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode or not library.exists():
        return f"rustc failed\n{done.stderr.strip()}"
    return None
