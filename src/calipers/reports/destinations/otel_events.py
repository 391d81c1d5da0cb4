"""A score as OpenTelemetry events: one `gen_ai.evaluation.result` per group and metric."""

from __future__ import annotations

import logging
from time import time_ns
from typing import TYPE_CHECKING, Any, cast

from calipers.reports.destinations.trackers import describe_group
from calipers.support.errors import UsageError
from calipers.support.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk._logs.export import LogRecordExporter

    from calipers.scores.result import Group, Measured, Score

_EVENT = "gen_ai.evaluation.result"
_PATH = "/v1/logs"


def send_to_otel(score: Score, where: str | None) -> str:
    """Export the events over OTLP/HTTP, to an endpoint or to the one the environment names."""
    from opentelemetry._logs import LogRecord, SeverityNumber  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http._log_exporter import (  # noqa: PLC0415
        OTLPLogExporter,
    )
    from opentelemetry.sdk._logs import LoggerProvider  # noqa: PLC0415
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415

    endpoint = where and f"{where.rstrip('/').removesuffix(_PATH)}{_PATH}"
    exporter = _Watched(OTLPLogExporter(endpoint=endpoint))
    resource = Resource.create({"service.name": "calipers", "service.version": __version__})
    provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(cast("LogRecordExporter", exporter)))
    logger = provider.get_logger("calipers", __version__)
    now, sent = time_ns(), 0
    for group in score.groups:
        for name, measured in group.metrics.items():
            if measured.value is None:
                continue
            logger.emit(
                LogRecord(
                    timestamp=now,
                    event_name=_EVENT,
                    severity_number=SeverityNumber.INFO,
                    attributes=_describe(group, name, measured),
                )
            )
            sent += 1
    # The SDK would log each retry; undelivered events are reported once instead.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    provider.shutdown()
    if exporter.failed:
        raise UsageError(
            f"--to otel: {exporter.failed:,} of {sent:,} events were not taken by the endpoint",
            fix="check OTEL_EXPORTER_OTLP_ENDPOINT, or name it: --to otel:http://127.0.0.1:4318",
        )
    return f"otel: {sent:,} events {_EVENT}"


class _Watched:
    """An exporter that counts what it could not deliver: the SDK itself only logs that."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self.failed = 0

    def export(self, batch: Any) -> Any:
        from opentelemetry.sdk._logs.export import LogRecordExportResult  # noqa: PLC0415

        result = self._exporter.export(batch)
        self.failed += 0 if result is LogRecordExportResult.SUCCESS else len(batch)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exporter, name)


def _describe(group: Group, name: str, measured: Measured) -> dict[str, Any]:
    bounds = {"low": measured.low, "high": measured.high, "stderr": measured.stderr}
    return {
        "gen_ai.evaluation.name": name,
        "gen_ai.evaluation.score.value": measured.value,
        "calipers.n": measured.n,
        **{f"calipers.{key}": value for key, value in bounds.items() if value is not None},
        **{f"calipers.by.{key}": text for key, text in describe_group(group.by).items()},
        **({"gen_ai.request.model": str(group.by["model"])} if group.by.get("model") else {}),
    }
