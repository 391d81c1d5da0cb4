"""A Python function as a suite, for `calipers.run(function, tasks=[…])`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calipers.runs.preparing import Prepared, prepare_suite
from calipers.runs.suite import EXAMPLE, Suite
from calipers.support.arguments import require_type
from calipers.support.config.files import ConfigFile
from calipers.support.errors import UsageError

_TASKS, _POLICY = "tasks.jsonl", "policy.json"
_KEPT: list[TemporaryDirectory[str]] = []  # as long as this process runs


def make_folder() -> Path:
    """Return a folder that is removed when Python ends."""
    _KEPT.append(TemporaryDirectory(prefix="calipers-run-"))
    return Path(_KEPT[-1].name)


def prepare_function(
    function: Any, tasks: Any, policy: Any, checks: Any, **settings: Any
) -> Prepared:
    """Return a function, or an agent, as a suite that has been checked; see `run`.

    Raises:
        ArgumentTypeError: The tasks or the policy are of another type.
        UsageError: A setting is not one of a suite, or has a wrong value.
    """
    base = make_folder()
    name = getattr(function, "__name__", None) or getattr(function, "name", None) or ""
    name = name if name.isidentifier() else "function"
    (base / f"{name}.py").write_text(_read_source(function), encoding="utf-8")
    found = {
        "name": name,
        **settings,
        "data": _write_tasks(tasks, base),
        "systems": [{"name": name, "python": f"{name}.py:{name}"}],
        **({} if policy is None else {"policy": _write_policy(policy, base)}),
    }
    suite = Suite.of(ConfigFile(f"run({name})", found), example=EXAMPLE)
    return prepare_suite(suite, base, functions={name: function}, checks=checks)


def _read_source(function: Any) -> str:
    """Return what identifies the function's version: its source, or else its bytecode."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # defined at a prompt, or not a plain function
        code = getattr(function, "__code__", None)
        return f"# {getattr(code, 'co_code', b'').hex()} {getattr(code, 'co_consts', ())}\n"


def _write_tasks(tasks: Any, base: Path) -> str:
    if isinstance(tasks, str) and "://" in tasks:
        return tasks
    if isinstance(tasks, str | Path):
        return str(Path(tasks).resolve())
    require_type(
        "tasks",
        tasks,
        list | tuple,
        expected="a file or a list of records",
        fix='for example tasks=[{"id": "q1", "input": "2 + 2", "target": "4"}]',
    )
    records = [{"input": each} if isinstance(each, str) else each for each in tasks]
    try:
        lines = [json.dumps(each, allow_nan=False) for each in records]
    except (TypeError, ValueError) as error:
        raise UsageError(f"tasks: {error}", fix="a task is a dict of JSON values") from error
    (base / _TASKS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return _TASKS


def _write_policy(policy: Any, base: Path) -> str:
    if isinstance(policy, str | Path):
        return str(Path(policy).resolve())
    require_type(
        f"policy={policy!r}",
        policy,
        Mapping,
        expected="a file or a mapping",
        fix='for example policy={"thresholds": {"blocking": {"accuracy": 90}}}',
    )
    (base / _POLICY).write_text(json.dumps(policy, default=str), encoding="utf-8")
    return _POLICY
