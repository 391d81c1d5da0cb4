"""A Python function as a system: plain ones run in threads, async ones in an event loop.

An async function that blocks where it should await (`time.sleep`) holds up the functions beside it,
but not the run: its call times out like any other, and calls that could not begin meanwhile may be
made again. All async functions share the loop, for they may share clients, and these belong to a
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sysconfig
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from time import monotonic, perf_counter
from traceback import extract_tb
from types import NoneType, TracebackType, UnionType
from typing import Annotated, Any, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from calipers.support.files import Say
from calipers.support.user_code import Function
from calipers.systems.calls import Call, Fault, Reply, describe_error, make_reply
from calipers.systems.otel import SpanCollector, WatchedResult, add_spans

T = TypeVar("T")

_BEAT = 0.05  # seconds between signs of life
_LATE = 0.5  # seconds without one mean that somebody blocks it
_LOOP_PATIENCE = 1.0  # seconds to end in
_NOT_BEGUN = "it had not begun"


class Raised(Exception):  # noqa: N818
    """Carries an exception that a future cannot hold, such as StopIteration or SystemExit."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class OwnLoop:
    """Runs users' async functions in a loop of its own, from the first one until it is left."""

    def __enter__(self) -> Self:
        self._thread: Thread | None = None
        self._last_sign = monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it; one that is blocked is left behind, and ends with the program."""
        if self._thread is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(_LOOP_PATIENCE)

    def _begin(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._last_sign = monotonic()
        self._thread = Thread(target=self._run_loop, daemon=True, name="calipers-functions")
        self._thread.start()

    async def run(self, begin: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of what is begun there; raise `Raised` with what it raised."""
        begun, given_up = Event(), Event()
        if self._thread is None:
            self._begin()

        async def run_begun() -> Any:
            begun.set()
            if given_up.is_set():
                raise asyncio.CancelledError
            try:
                return await begin()
            except (asyncio.CancelledError, Raised):
                raise
            except BaseException as error:  # noqa: BLE001 (SystemExit would end the loop)
                raise Raised(error) from None

        future = asyncio.run_coroutine_threadsafe(run_begun(), self._loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                raise Raised(error) from None  # its own doing
            given_up.set()
            raise asyncio.CancelledError(*([] if begun.is_set() else [_NOT_BEGUN])) from None

    @property
    def is_blocked(self) -> bool:
        """Return True if something holds it up just now."""
        return self._thread is not None and monotonic() - self._last_sign > _LATE

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._beat())

    async def _beat(self) -> None:
        while not self._over.is_set():
            self._last_sign = monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _BEAT)


async def measure_seconds(begun: Awaitable[T]) -> tuple[T, float]:
    """Return what is awaited, and after how many seconds."""
    began = perf_counter()
    return await begun, perf_counter() - began


def is_unbegun(late: TimeoutError) -> bool:
    """Return True if a call that timed out was waiting for the loop all the time."""
    return late.__cause__ is not None and _NOT_BEGUN in late.__cause__.args


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# Libraries and ours: an exception is shown where the user's code called them.
_NOT_THEIRS = (
    Path(__file__).parents[1],
    *(Path(sysconfig.get_path(place)) for place in ("stdlib", "platstdlib", "purelib", "platlib")),
)
_Work = Callable[[], None]
_PATIENCE = 5.0  # seconds that a thread waits for its next call
_BLOCKED = (
    "an async function blocks its event loop, and the calls beside it wait: "
    "await what takes time, or write it as a plain def, which gets a thread"
)


@dataclass(frozen=True, slots=True)
class Returned:
    """What a function gave for a call, the spans that it emitted, and its seconds."""

    value: Any
    spans: list[Any]
    seconds: float


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
        self.takes_nothing = takes_nothing(function)

    async def __call__(self, call: Call) -> Reply:
        """Return the function's reply; raise a Fault for what it raised."""
        given = await self.run(call)
        return replace(add_spans(make_reply(given.value), given.spans), seconds=given.seconds)

    async def run(self, call: Call) -> Returned:
        """Return whatever the function gives; raise a Fault for what it raised."""
        try:
            given, seconds = await self._call_function(self._make_arguments(call))
        except asyncio.CancelledError:
            if self._loop.is_blocked:
                self._say(_BLOCKED)
            raise
        except Raised as raised:  # also SystemExit
            raise make_fault(raised.error) from raised.error
        if isinstance(given, WatchedResult):
            return Returned(given.value, given.spans, seconds)
        return Returned(given, [], seconds)

    def _make_arguments(self, call: Call) -> tuple[str | dict[str, Any], ...]:
        if self.takes_nothing:
            return ()
        if not self._takes_text:
            return (deepcopy(dict(call.record)),)
        if not call.prompt:
            raise Fault("bad_request", "the function takes a text, and the task has no input")
        return (call.prompt,)

    async def _call_function(
        self, arguments: tuple[str | dict[str, Any], ...]
    ) -> tuple[Any, float]:
        """Return what the function gives, and its seconds: no wait for a thread or for the loop."""
        given: Any
        begin = partial(self._function, *arguments)
        if self._is_async:
            given, seconds = await self._loop.run(lambda: measure_seconds(begin()))
            return given, seconds
        given, seconds = await run_in_thread(begin)
        if inspect.isawaitable(given):
            given, more = await self._loop.run(lambda: measure_seconds(given))
            seconds += more
        return given, seconds


def takes_nothing(function: Any) -> bool:
    """Return True if a function has no parameters: it makes an agent for each task.

    >>> takes_nothing(lambda: ""), takes_nothing(lambda record: ""), takes_nothing(print)
    (True, False, False)
    """
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def takes_text(function: Any) -> bool:
    """Return True if the first parameter of a function is annotated as a text.

    `str`, `str | None`, `Annotated[str, …]` and names for these are texts. Where a dict is allowed
    too, nothing is annotated, or the annotation cannot be resolved, the function takes the record.

    >>> def answer(prompt: str) -> str: ...
    >>> def solve(record: str | dict) -> str: ...
    >>> takes_text(answer), takes_text(solve), takes_text(lambda record: "")
    (True, False, False)
    """
    try:
        parameters = inspect.signature(function).parameters.values()
        first = next((parameter for parameter in parameters if parameter.kind in _POSITIONAL), None)
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
        return all(_is_text(arg) for arg in get_args(hint) if arg is not NoneType)
    return False


def make_fault(error: BaseException) -> Fault:
    """Return the fault for what the function raised; timeouts and connections may be retried."""
    if isinstance(error, Fault):
        return error
    problem = describe_error(error, find_own_line(error))
    if isinstance(error, TimeoutError):
        return Fault("timeout", problem, again=True, outage=True)
    if isinstance(error, ConnectionError):
        return Fault("connection", problem, again=True, outage=True)
    return Fault("exception", problem)


def find_own_line(error: BaseException) -> str | None:
    """Return the last line of the user's own code that the exception came through."""
    frames = [(Path(frame.filename), frame.lineno) for frame in extract_tb(error.__traceback__)]
    own = [
        (path, line)
        for path, line in frames
        if path.is_absolute() and not any(path.is_relative_to(folder) for folder in _NOT_THEIRS)
    ]
    if not own:
        return None
    path, line = own[-1]
    here = Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path.name}:{line}"


class _Threads:
    """Threads that wait for the next call; one that hangs is abandoned, and ends with the process.

    Each call has a context of its own, as in a new thread, unless one is given.
    """

    def __init__(self) -> None:
        self._idle: deque[SimpleQueue[_Work]] = deque()

    def start(self, work: _Work, context: Context | None = None) -> None:
        work = partial((context or Context()).run, work)
        try:
            self._idle.pop().put(work)
        except IndexError:
            Thread(target=self._serve, args=(work,), daemon=True, name="calipers-system").start()

    def _serve(self, first: _Work) -> None:
        given: SimpleQueue[_Work] = SimpleQueue()
        work: _Work | None = first
        while work is not None:
            work()
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


async def run_in_thread(
    function: Callable[[], Any], context: Context | None = None
) -> tuple[Any, float]:
    """Return what a function returns in a thread, and after how many seconds.

    Raises:
        Raised: The function raised what this carries.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, float]] = loop.create_future()

    def tell(result: Any, seconds: float, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result((result, seconds))
        else:
            done.set_exception(Raised(error))

    def work() -> None:
        result, raised = None, None
        began = perf_counter()
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 (goes to the caller)
            raised = error
        seconds = perf_counter() - began
        with contextlib.suppress(RuntimeError):  # the run is over
            loop.call_soon_threadsafe(tell, result, seconds, raised)

    _threads.start(work, context)
    return await done
