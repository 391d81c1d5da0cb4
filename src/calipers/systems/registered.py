"""Systems that plug-ins register: a suite names one as `python: NAME`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

from calipers.support.arguments import require_callable, require_type
from calipers.support.quick_dataclasses import dataclass
from calipers.support.registry import Registry, add_registry


@dataclass(frozen=True, eq=False)
class FunctionSystem:
    """A function that answers, `def answer(record: dict) -> str | dict`, under a name."""

    name: str
    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        fix = 'for example FunctionSystem("desk", answer)'
        require_type("FunctionSystem: name", self.name, str, expected="a text", fix=fix)
        require_callable("FunctionSystem: function", self.function, fix=fix)

    @property
    def definition(self) -> Hashable:
        """The name and the code, to tell whether two are the same."""
        code = getattr(self.function, "__code__", None)
        return self.name, self.function if code is None else (code.co_code, str(code.co_consts))

    @property
    def file(self) -> Path | None:
        """The file that the function stands in, where there is one."""
        try:
            found = inspect.getsourcefile(inspect.unwrap(self.function))
        except TypeError:
            return None
        return None if found is None else Path(found)


SYSTEMS: Registry[FunctionSystem] = Registry("system")
add_registry(FunctionSystem, SYSTEMS)
