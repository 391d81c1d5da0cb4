"""A Python function as a system: async ones run in a loop of their own, others in threads."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from threading import Thread
from typing import Any

from calipers.support.cache import Say
from calipers.support.errors import UsageError, nearest
from calipers.systems.calls import Call, Fault, Reply
from calipers.systems.own_loop import OwnLoop, Raised
from calipers.systems.registered import SYSTEMS
from calipers.systems.reloading import fresh_modules
from calipers.systems.signatures import takes_text

Function = Callable[[Any], Any]

_BLOCKED = (
    "an async function blocks its event loop, and the calls beside it wait: "
    "await what takes time, or write it as a plain def, which gets a thread"
)


class PythonFunction:
    """Calls a function with a record of its own, or with the prompt where it takes a text."""

    def __init__(self, function: Function, loop: OwnLoop, say: Say) -> None:
        self._function = function
        self._loop = loop
        self._say = say
        target = function if inspect.isroutine(function) else type(function).__call__
        self._is_async = inspect.iscoroutinefunction(target)
        self._takes_text = takes_text(function)

    async def __call__(self, call: Call) -> Reply:
        """What the function returns, or a fault of what it raised."""
        try:
            given = await self._given(self._argument(call))
        except asyncio.CancelledError:
            if self._loop.is_blocked:
                self._say(_BLOCKED)
            raise
        except Raised as raised:  # a function may also try to end the program
            raise _fault(raised.error) from raised.error
        return given_reply(given)

    def _argument(self, call: Call) -> str | dict[str, Any]:
        """Return what the function is called with."""
        if not self._takes_text:
            return deepcopy(dict(call.record))
        if not call.prompt:
            raise Fault("bad_request", "the function takes a text, and the task has no input")
        return call.prompt

    async def _given(self, argument: str | dict[str, Any]) -> Any:
        if self._is_async:
            return await self._loop.result(lambda: self._function(argument))
        given = await _in_thread(self._function, argument)
        if inspect.isawaitable(given):
            return await self._loop.result(lambda: given)
        return given


def given_reply(given: Any) -> Reply:
    """A text, or fields of the record; anything else is no reply."""
    if isinstance(given, str):
        return Reply(text=given)
    if isinstance(given, dict) and all(isinstance(key, str) for key in given):
        return Reply(fields=given)
    raise Fault("bad_response", f"neither a text nor record fields, but {_kind_of(given)}")


def _kind_of(value: Any) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"


def _fault(error: BaseException) -> Fault:
    """What the function raised; time and connections may be better next time."""
    if isinstance(error, Fault):
        return error
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, TimeoutError):
        return Fault("timeout", said, again=True, outage=True)
    if isinstance(error, ConnectionError):
        return Fault("connection", said, again=True, outage=True)
    return Fault("exception", said)


async def _in_thread(function: Function, argument: str | dict[str, Any]) -> Any:
    """What a thread of its own comes to; one that hangs is left behind, and ends with us.

    `Raised` with what it raised.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def tell(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(Raised(error))

    def work() -> None:
        result, raised = None, None
        try:
            result = function(argument)
        except BaseException as error:  # noqa: BLE001 (goes to the caller)
            raised = error
        with contextlib.suppress(RuntimeError):  # the run is over
            loop.call_soon_threadsafe(tell, result, raised)

    Thread(target=work, daemon=True, name="calipers-system").start()
    return await done


def load_function(reference: str, folder: Path) -> Function:
    """The function that FILE.py:FUNCTION names, or that a plug-in registered under the name.

    The file's folder is where it imports from.
    """
    if ":" not in reference:
        return SYSTEMS.get(reference).function
    file, _, name = reference.rpartition(":")
    path = (folder / file).resolve()
    if not path.is_file():
        raise UsageError(f"{path}: no such file", fix="the path is relative to the suite")
    module = _module(path, folder.resolve())
    function = getattr(module, name, None)
    if not callable(function):
        known = [each for each, value in vars(module).items() if inspect.isfunction(value)]
        raise UsageError(f"{path} has no function {name}", fix=nearest(name, known))
    return function  # type: ignore[no-any-return]


def _module(path: Path, folder: Path) -> Any:
    name = f"calipers_system_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: no Python file", fix="for example solver.py:answer")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) in sys.path:  # another suite's folder may stand before it
        sys.path.remove(str(path.parent))
    sys.path.insert(0, str(path.parent))
    try:
        with fresh_modules(path, folder):
            sys.modules[name] = module  # dataclasses look their module up
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{path}: it cannot be loaded: {type(error).__name__}: {error}",
            fix=f"see where: python {path.name}",
        ) from error
    return module
