"""Build the native library (native/) into the package, where Rust is at hand, and name its address.

Without a Rust compiler, or with CALIPERS_NATIVE=0, the package is pure Python and gives the same
numbers, slower. CALIPERS_NATIVE=1 makes a build without the library fail.
With CALIPERS_MANYLINUX=2_17 Zig (the package `ziglang`) links it against the C library of
that version, and the wheel says so. Nothing is downloaded.

CALIPERS_REPOSITORY is the address of the repository that a release names; without it, none. Links
of the README lead there, since an index shows it without the files beside it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

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
        manylinux = _find_manylinux()
        if reason := _compile(Path(self.root), library, manylinux):
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
            build_data["tag"] = f"py3-none-{_name_platform(manylinux)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, which the wheel has now."""
        del version, build_data, artifact_path
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


class AddressHook(MetadataHookInterface):
    """Adds README and addresses of the repository, which are known where a release is made."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README, and the project's URLs if its repository is named.

        Raises:
            ValueError: The address is none.
        """
        address = os.environ.get("CALIPERS_REPOSITORY", "").rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": _place_links(text, address)}
        if not address:
            metadata["urls"] = {}
            return
        if not re.fullmatch(r"https://[\w.-]+(/[\w.~-]+)+", address):
            raise ValueError(f"CALIPERS_REPOSITORY: {address!r} is not https://HOST/GROUP/NAME")
        metadata["urls"] = {
            "Repository": address,
            "Issues": f"{address}/issues",
            "Changelog": f"{address}/blob/main/CHANGELOG.md",
            "Documentation": f"{address}/blob/main/docs/index.md",
        }


def _place_links(text: str, address: str) -> str:
    """Return Markdown whose links to files lead to the repository; as it is without an address."""
    if not address:
        return text
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\1{address}/raw/main/", text)
    return re.sub(
        r"((?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\()(?!https?:|#)", rf"\1{address}/blob/main/", text
    )


def _find_manylinux() -> str | None:
    """Return the version of the C library to link against, such as 2_17; None for this machine's.

    Raises:
        RuntimeError: It is no version.
    """
    version = os.environ.get("CALIPERS_MANYLINUX")
    if not version or sys.platform != "linux":
        return None
    if not re.fullmatch(r"2_\d+", version):
        raise RuntimeError(f"CALIPERS_MANYLINUX={version}: not a version such as 2_17")
    return version


def _name_platform(manylinux: str | None) -> str:
    """Return the platform that a wheel with the library is for, as pip names it."""
    if manylinux:
        return f"manylinux_{manylinux}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _compile(root: Path, library: Path, manylinux: str | None) -> str | None:
    """Compile the library; return why that failed, None if it did not."""
    if not shutil.which(_COMPILE[0]):
        return "there is no rustc on the path"
    # Messages of the library name its files from the root, so that builds elsewhere are the same.
    command = [*_COMPILE, f"--remap-path-prefix={root}=.", "-o", str(library), str(root / _SOURCE)]
    if manylinux:
        linker = library.with_name("link")
        target = f"{platform.machine()}-linux-gnu.{manylinux.replace('_', '.')}"
        linker.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc -target {target} "$@"\n'
        )
        linker.chmod(0o755)
        command += (f"-Clinker={linker}", "-Clinker-flavor=gcc")
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode or not library.exists():
        return f"rustc failed\n{done.stderr.strip()}"
    return None
