"""Templates that are compiled once: Python keeps their code in `__pycache__`, as of its modules."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any
from zlib import crc32

from jinja2 import Environment, PackageLoader, Template
from jinja2 import __version__ as jinja_version

from calipers.support.version import __version__


class CompiledLoader(PackageLoader):
    """Loads the templates of a package; those in files are compiled when they have changed."""

    def load(
        self,
        environment: Environment,
        name: str,
        globals: MutableMapping[str, Any] | None = None,  # noqa: A002 (Jinja's)
    ) -> Template:
        """Return the template of that name."""
        _, filename, is_current = self.get_source(environment, name)
        if not Path(filename).is_file():  # in an archive
            return super().load(environment, name, globals)
        code = _TemplateFile(environment, name, filename).get_code(name)
        assert code is not None
        return environment.template_class.from_code(
            environment, code, globals if globals is not None else {}, is_current
        )


class _TemplateFile(SourceFileLoader):
    """Compiles a template in the place of a module."""

    def __init__(self, environment: Environment, name: str, filename: str) -> None:
        super().__init__(name, filename)
        self._environment = environment

    def path_stats(self, path: str) -> dict[str, Any]:
        """Return what tells that the code is of this file, and of this version of its compiler."""
        found = Path(path).stat()
        changed = f"{found.st_mtime_ns} {jinja_version} {__version__}"
        return {"mtime": crc32(changed.encode()), "size": found.st_size}

    def source_to_code(self, data: Any, path: Any, **_: Any) -> CodeType:  # type: ignore[override]
        """Return the code of the template's text."""
        return self._environment.compile(data.decode(), self.name, path)
