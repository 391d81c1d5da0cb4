"""A Python function as a system: async ones run in their own event loop, others in threads."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections import deque
from collections.abc import Callable
from contextvars import Context
from copy import deepcopy
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from calipers.support.cache import Say
from calipers.support.functions import Function
from calipers.systems.calls import Call, Fault, Reply, describe_error, make_reply
from calipers.systems.own_loop import OwnLoop, Raised
from calipers.systems.spans import SpanCollector, Watched, add_spans

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_Work = Callable[[], None]
_PATIENCE = 5.0  # seconds that a thread waits for its next call
_BLOCKED = (
    "an async function blocks its event loop, and the calls beside it wait: "
    "await what takes time, or write it as a plain def, which gets a thread"
)


class PythonFunction:
    """Calls a function with a record of its own, or with the prompt where it takes a text."""

    def __init__(
        self, function: Function, loop: OwnLoop, say: Say, spans: SpanCollector | None = None
    ) -> None:
        self._function = function if spans is None else spans.watch(function)
        self._loop = loop
        self._say = say
        target = function if inspect.isroutine(function) else type(function).__call__
        self._is_async = inspect.iscoroutinefunction(target)
        self._takes_text = takes_text(function)

    async def __call__(self, call: Call) -> Reply:
        """Return the function's reply; raise a Fault for what it raised."""
        try:
            given = await self._call_function(self._make_argument(call))
        except asyncio.CancelledError:
            if self._loop.is_blocked:
                self._say(_BLOCKED)
            raise
        except Raised as raised:  # also SystemExit
            raise make_fault(raised.error) from raised.error
        if isinstance(given, Watched):
            return add_spans(make_reply(given.value), given.spans)
        return make_reply(given)

    def _make_argument(self, call: Call) -> str | dict[str, Any]:
        if not self._takes_text:
            return deepcopy(dict(call.record))
        if not call.prompt:
            raise Fault("bad_request", "the function takes a text, and the task has no input")
        return call.prompt

    async def _call_function(self, argument: str | dict[str, Any]) -> Any:
        if self._is_async:
            return await self._loop.run(lambda: self._function(argument))
        given = await _run_in_thread(self._function, argument)
        if inspect.isawaitable(given):
            return await self._loop.run(lambda: given)
        return given


def takes_text(function: Any) -> bool:
    """Say whether the first parameter of a function is annotated as a text.

    `str`, `str | None`, `Annotated[str, …]` and names for these are texts. Where a dict is allowed
    too, nothing is annotated, or the annotation cannot be resolved, the function takes the record.

    >>> def answer(prompt: str) -> str: ...
    >>> def solve(record: str | dict) -> str: ...
    >>> takes_text(answer), takes_text(solve), takes_text(lambda record: "")
    (True, False, False)
    """
    try:
        parameters = inspect.signature(function).parameters.values()
        first = next((each for each in parameters if each.kind in _POSITIONAL), None)
        return first is not None and _is_text(_resolve(first.annotation, function))
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError):
        return False


def _resolve(annotation: Any, function: Any) -> Any:
    """Return what a string annotation names, where its function is defined."""
    if not isinstance(annotation, str):
        return annotation
    holder = type("Holder", (), {"__annotations__": {"given": annotation}})
    return get_type_hints(holder, getattr(_unwrap(function), "__globals__", {}))["given"]


def _unwrap(function: Any) -> Any:
    """Return the function that stands behind a partial one, a method or a callable object."""
    if isinstance(function, partial):
        return _unwrap(function.func)
    if not inspect.isroutine(function):
        return inspect.unwrap(type(function).__call__)
    return inspect.unwrap(getattr(function, "__func__", function))


def _is_text(hint: Any) -> bool:
    if isinstance(hint, type):
        return issubclass(hint, str)
    for alias in ("__supertype__", "__value__"):  # NewType, and `type Prompt = str`
        if hasattr(hint, alias):
            return _is_text(getattr(hint, alias))
    if get_origin(hint) is Annotated:
        return _is_text(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return all(_is_text(each) for each in get_args(hint) if each is not NoneType)
    return False


def make_fault(error: BaseException) -> Fault:
    """Return the fault for what the function raised; timeouts and connections may be retried."""
    if isinstance(error, Fault):
        return error
    said = describe_error(error)
    if isinstance(error, TimeoutError):
        return Fault("timeout", said, again=True, outage=True)
    if isinstance(error, ConnectionError):
        return Fault("connection", said, again=True, outage=True)
    return Fault("exception", said)


class _Threads:
    """Threads that wait for the next call; one that hangs is abandoned, and ends with the process.

    Each call has a context of its own, as in a new thread.
    """

    def __init__(self) -> None:
        self._idle: deque[SimpleQueue[_Work]] = deque()

    def start(self, work: _Work) -> None:
        try:
            self._idle.pop().put(work)
        except IndexError:
            Thread(target=self._serve, args=(work,), daemon=True, name="calipers-system").start()

    def _serve(self, first: _Work) -> None:
        given: SimpleQueue[_Work] = SimpleQueue()
        work: _Work | None = first
        while work is not None:
            Context().run(work)
            work = None  # and with it the record
            self._idle.append(given)
            work = self._wait(given)

    def _wait(self, given: SimpleQueue[_Work]) -> _Work | None:
        """Return the next work; None where there is none for some time."""
        try:
            return given.get(timeout=_PATIENCE)
        except Empty:
            with contextlib.suppress(ValueError):
                self._idle.remove(given)
                return None
            return given.get()  # it has just been given


_threads = _Threads()


async def _run_in_thread(function: Function, argument: str | dict[str, Any]) -> Any:
    """Return what a function returns in a thread; raise `Raised` with what it raised."""
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

    _threads.start(work)
    return await done
