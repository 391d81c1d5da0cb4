"""The page of licenses: every dependency that pyproject.toml declares, with its license."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.reference.markdown import tabulate

_ROOT = Path(__file__).resolve().parents[2]
_SECTION = re.compile(r"^([\w-]+) = \[", re.MULTILINE)
_ENTRY = re.compile(r'"([a-z][\w.-]*?)(?:\[[\w,]+\])?(?:[<>=!~][^"]*)?"[^"#\n]*(?:# *([^;\n]+))?')
_HEAD = """# Licenses of dependencies

Calipers is licensed under the Apache License 2.0. One file in it is not ours: `htmx-2.0.3.min.js`
of the dashboard, as [htmx](https://htmx.org) publishes it (0BSD). The packages that `pip` installs
with it state these licenses; all of them are permissive. Packages that these need in turn are not
listed: `pip-licenses`, or a tool like it, lists all that is in an environment.

"""


def write_licenses_page() -> str:
    """Return the page, a row per package that `dependencies` or an extra names."""
    found: dict[str, tuple[str, list[str]]] = {}
    for section, name, license_ in _list_entries():
        known, sections = found.setdefault(name, (license_, []))
        found[name] = (known or license_, sections)
        if section not in sections:
            sections.append(section)
    rows = (
        (name, license_, ", ".join(_name_section(each) for each in sections))
        for name, (license_, sections) in sorted(found.items())
    )
    return _HEAD + tabulate(("package", "license", "comes with"), rows)


def _list_entries() -> Iterator[tuple[str, str, str]]:
    """Yield the section, name and license of each dependency, as pyproject.toml has them."""
    text = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = text.partition("\ndependencies = [")[2].partition("\n[project.entry-points")[0]
    parts = _SECTION.split("dependencies = [" + declared)
    for section, body in zip(parts[1::2], parts[2::2], strict=True):
        for name, license_ in _ENTRY.findall(body):
            if name != "calipers":
                yield section, name, license_.strip()


def _name_section(section: str) -> str:
    return "Calipers" if section == "dependencies" else f"`{section}`"
