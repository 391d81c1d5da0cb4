"""Destinations of a score (`--to`): MLflow, Weights & Biases, OpenTelemetry, Every Eval Ever.

A destination is named `NAME` or `NAME:WHERE`, such as `mlflow:sqlite:///mlflow.db`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from calipers.support.errors import UsageError, nearest, require_extra
from calipers.support.options import require_type

if TYPE_CHECKING:
    from calipers.scores.result import Score

_MODULES = {  # that each destination needs
    "mlflow": ("mlflow",),
    "wandb": ("wandb",),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter"),
    "every_eval_ever": (),
}

_SENDERS = {  # of each destination, the module here and its function
    "mlflow": ("trackers", "send_to_mlflow"),
    "wandb": ("trackers", "send_to_wandb"),
    "otel": ("otel_events", "send_to_otel"),
    "every_eval_ever": ("shared_results", "send_to_every_eval_ever"),
}


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a score is sent: the kind, and the place as that kind names it."""

    name: str
    where: str | None

    def __str__(self) -> str:
        return self.name if self.where is None else f"{self.name}:{self.where}"


def read_destination(text: str) -> Destination:
    """Return the destination that a text names, before any work is done.

    Raises:
        UsageError: It is not known.
        MissingExtraError: Its package is not installed.
    """
    name, colon, where = text.partition(":")
    if name not in _MODULES:
        raise UsageError(f"--to {text}: {name!r} is not known", fix=nearest(name, _MODULES))
    require_extra(f"--to {name}: its package is not installed", extra=name, modules=_MODULES[name])
    return Destination(name, where if colon and where else None)


def publish(score: Score, to: str | Iterable[str]) -> tuple[str, ...]:
    """Send a score to destinations such as `mlflow:URI`, and return what was written where.

    Args:
        score: What `calipers.score` returned.
        to: One destination or several: `mlflow[:TRACKING_URI]`, `wandb[:PROJECT]`,
            `otel[:ENDPOINT]`, `every_eval_ever:FOLDER`.

    Raises:
        UsageError: A destination is not known, or did not take the score; the others have it.
    """
    from calipers.scores.result import Score  # noqa: PLC0415 (`--to` is read before any work)

    fix = "for example publish(calipers.score(data), to=…)"
    require_type("publish", score, Score, expected="a Score", fix=fix)
    found = [read_destination(each) for each in ([to] if isinstance(to, str) else to)]
    return tuple(send_all(score, found))


def send_all(score: Score, to: Iterable[Destination]) -> Iterator[str]:
    """Send a score to each destination, and yield a line for each that took it.

    Raises:
        UsageError: Some did not take it. It is raised after all were tried.
    """
    failed: list[UsageError] = []
    for each in to:
        try:
            yield _send(score, each)
        except UsageError as error:
            failed.append(error)
    if failed:
        raise UsageError(
            "; ".join(error.message for error in failed),
            fix="; ".join(dict.fromkeys(error.fix for error in failed)),
        )


def _send(score: Score, to: Destination) -> str:
    module, function = _SENDERS[to.name]
    send = getattr(import_module(f"{__name__}.{module}"), function)
    try:
        said: str = send(score, to.where)
    except UsageError:
        raise
    except Exception as error:  # clients raise anything; the score itself is computed
        raise UsageError(
            f"--to {to}: {type(error).__name__}: {error}",
            fix="the score itself is computed and printed; check the address and the credentials",
        ) from error
    return said
