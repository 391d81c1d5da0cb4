"""The command line, called as a user calls it."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from calipers.cli import app


def run(*args: object, **more: Any) -> Result:
    """What a command answers; it may say no, but never with a traceback."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], **more)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback (most recent call last)" not in result.output, result.output
    return result


def refused(*args: object, code: int = 2) -> str:
    """What is said of a mistake; nothing may be on stdout."""
    result = run(*args)
    assert (result.exit_code, result.stdout) == (code, "")
    return result.stderr


def strict(text: str) -> Any:
    """JSON without NaN and Infinity."""

    def no_constants(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=no_constants)
