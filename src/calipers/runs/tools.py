"""The tools that a suite offers to its models: tools.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from calipers.support.config.files import ConfigFile, read_config
from calipers.support.config.models import StrictModel, refuse
from calipers.support.errors import UsageError
from calipers.support.functions import load_function
from calipers.systems.conversations import Tool
from calipers.systems.spec import Text, allow

EXAMPLE = (
    "for example - {name: look_up, description: …, parameters: {type: object}, "
    'python: "tools.py:look_up"}'
)


class WrittenTool(StrictModel):
    """A tool, as written in the file."""

    name: Text
    description: str = ""
    parameters: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}},
        description="The arguments, as JSON Schema.",
    )
    python: Text | None = allow("FILE.py:FUNCTION beside the file.")
    reply: str | None = allow("A fixed reply, whatever the arguments.")

    @model_validator(mode="after")
    def _check_way(self) -> WrittenTool:
        if (self.python is None) == (self.reply is None):
            refuse(f"{self.name}: either python or reply", fix=EXAMPLE)
        return self


class _ToolFile(StrictModel):
    tools: list[WrittenTool] = Field(min_length=1)


def read_tools(path: Path) -> list[WrittenTool]:
    """Return the tools in a YAML or JSON file: a list, or an object with the key `tools`.

    Raises:
        UsageError: A mistake, with file and line; or two tools of one name.
    """
    config = read_config(path, example=EXAMPLE)
    if isinstance(config.value, list):
        lines = {("tools", *place): line for place, line in config.lines.items()}
        config = ConfigFile(config.source, {"tools": config.value}, lines)
    found = _ToolFile.of(config, example=EXAMPLE).tools
    for at, each in enumerate(found):
        if each.name in [other.name for other in found[:at]]:
            raise UsageError(f"{path}: two tools are called {each.name}", fix="rename one")
    return found


def open_tools(path: Path) -> dict[str, Tool]:
    """Return the tools of a file by name, their functions loaded."""
    return {
        each.name: Tool(
            None if each.python is None else load_function(each.python, path.parent), each.reply
        )
        for each in read_tools(path)
    }


def describe_tools(path: Path) -> list[Mapping[str, Any]]:
    """Return what a model is told of the tools."""
    return [
        {"name": each.name, "description": each.description, "parameters": each.parameters}
        for each in read_tools(path)
    ]


def list_files(path: Path) -> Iterator[Path]:
    """Yield the Python files that the tools call."""
    for each in read_tools(path):
        if each.python is not None:
            yield (path.parent / each.python.rpartition(":")[0]).resolve()
