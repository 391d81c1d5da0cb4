"""YAML as plain values with the line of each: no tags but the standard ones, no bombs."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

MAX_DEPTH = 40
MAX_VALUES = 50_000  # with every alias written out

Place = tuple[Hashable, ...]  # the keys and positions that lead to a value
Lines = dict[Place, int]

_STANDARD = "tag:yaml.org,2002:"


def load_yaml(text: str) -> tuple[Any, Lines]:
    r"""Return the value of a YAML document, and the line on which each part of it begins.

    >>> load_yaml("a:\n  - 1e-3\n  - b: yes")
    ({'a': [0.001, {'b': True}]}, {(): 1, ('a',): 1, ('a', 0): 2, ('a', 1): 3, ('a', 1, 'b'): 3})
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        reading = _Reading(loader)
        return reading.read_node(node, ()), reading.lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f" (line {mark.line + 1})"
        problem = ", ".join(filter(None, (error.context, error.problem)))
        raise ValueError(f"{problem}{where}") from error
    except yaml.YAMLError as error:
        raise ValueError(str(error).partition("\n")[0]) from error


class _Loader(yaml.SafeLoader):
    """Refuses documents that are nested too deeply or too large."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        self.nodes += 1
        _check_size(self.depth, self.nodes)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


# PyYAML speaks YAML 1.1, where 1e-3 is a text: a float there needs a point and a sign.
_Loader.add_implicit_resolver(
    f"{_STANDARD}float",
    re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


class _Reading:
    """Turns nodes into values; an alias is read again each time, so that it counts each time."""

    def __init__(self, loader: _Loader) -> None:
        self.lines: Lines = {}
        self._loader = loader
        self._values = 0
        self._depth = 0

    def read_node(self, node: yaml.Node, place: Place) -> Any:
        self._values += 1
        self._depth += 1
        _check_size(self._depth, self._values)
        self.lines.setdefault(place, node.start_mark.line + 1)
        node_value = self._read_kind(node, place)
        self._depth -= 1
        return node_value

    def _read_kind(self, node: yaml.Node, place: Place) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._loader.construct_object(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_STANDARD}seq":
            return [self.read_node(item, (*place, at)) for at, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_STANDARD}map":
            return self._read_mapping(node, place)
        raise ValueError(f"could not read {_name_line(node)}: the tag {node.tag} is not known")

    def _read_mapping(self, node: yaml.MappingNode, place: Place) -> dict[Hashable, Any]:
        mapping: dict[Hashable, Any] = {}
        merged: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_STANDARD}merge":
                merged = self._read_merge(value_node, place) | merged
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise ValueError(f"a key that is no plain text ({_name_line(key_node)})")  # noqa: TRY004
            key: Hashable = self._loader.construct_object(key_node)
            if key in mapping:
                raise ValueError(f"{key_node.value} is there twice ({_name_line(key_node)})")
            self.lines[*place, key] = key_node.start_mark.line + 1
            mapping[key] = self.read_node(value_node, (*place, key))
        return merged | mapping

    def _read_merge(self, node: yaml.Node, place: Place) -> dict[Hashable, Any]:
        """Return what `<<` merges in; of several mappings, the first that has a key wins."""
        several = node.value if isinstance(node, yaml.SequenceNode) else [node]
        mapping: dict[Hashable, Any] = {}
        for merged_node in several:
            value = self.read_node(merged_node, place)
            if not isinstance(value, dict):
                raise ValueError(f"<< needs a mapping ({_name_line(merged_node)})")  # noqa: TRY004
            mapping = value | mapping
        return mapping


def _check_size(depth: int, values: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if values > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} values, aliases written out")


def _name_line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"
