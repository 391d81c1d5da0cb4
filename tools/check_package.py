"""Check what `make package` built: wheels and their platforms, and that a second build is equal.

`python tools/check_package.py FOLDER`
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

_PURE = "py3-none-any"
_LEADS = re.compile("https?://|#")


def check_package(folder: Path) -> None:
    """Print what was built; raise SystemExit with what is wrong with it."""
    wheels = sorted(folder.glob("*.whl"))
    native = [wheel for wheel in wheels if _PURE not in wheel.name]
    if len(wheels) - len(native) != 1 or len([*folder.glob("*.tar.gz")]) != 1:
        raise SystemExit(f"{folder}: expected one sdist and one wheel of pure Python")
    for wheel in native:
        _check_platform(wheel)
    for wheel in wheels if os.environ.get("CALIPERS_REPOSITORY") else ():
        _check_links(wheel)
    with TemporaryDirectory() as again:
        environment = {**os.environ, "CALIPERS_MANYLINUX": "2_17"}
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", again]
        subprocess.run(command, env=environment, check=True, capture_output=True)  # noqa: S603
        for built in Path(again).iterdir():
            if _hash(built) != _hash(folder / built.name):
                raise SystemExit(f"{built.name}: two builds of the same tree differ")
    for built in sorted(folder.iterdir()):
        print(f"{_hash(built)}  {built.name}")
    if not native:
        if shutil.which("rustc"):
            raise SystemExit(f"{folder}: no wheel has the native library, though rustc is here")
        print("no wheel with the native library: there is no rustc here")


def _check_platform(wheel: Path) -> None:
    """Raise SystemExit if the wheel asks for a newer system than its name says."""
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    platform = wheel.stem.rpartition("-")[2]
    if not re.search(rf'platform\s+tag:\s+"{platform}"', said):
        raise SystemExit(f"{wheel.name}: auditwheel finds another platform\n{said}")


def _check_links(wheel: Path) -> None:
    """Raise SystemExit if a link of the README leads to a file that an index does not have."""
    with ZipFile(wheel) as archive:
        [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        readme = archive.read(name).decode()
    lost = [link for link in re.findall(r"\]\(([^)\s]+)", readme) if not _LEADS.match(link)]
    if lost or "](https://" not in readme:
        raise SystemExit(f"{wheel.name}: links of its README lead nowhere: {', '.join(lost)}")


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    check_package(Path(sys.argv[1]))
