"""Have Phoenix take spans of adding numbers, and export them: `write_phoenix.py FOLDER`."""

import json
import os
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from time import sleep

import httpx
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from phoenix.client import Client

SUMS, PATIENCE = 20, 240  # seconds


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def send(url: str) -> None:
    """Send a trace per sum: a chain, and the call of a model inside it."""
    provider = TracerProvider(resource=Resource({"openinference.project.name": "sums"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    tracer = provider.get_tracer("sums")
    for n in range(SUMS):
        with tracer.start_as_current_span("add") as chain:
            answer = str(2 * n + (n % 3 == 0))
            chain.set_attributes(
                {
                    "openinference.span.kind": "CHAIN",
                    "input.value": f"{n} + {n}",
                    "output.value": answer,
                }
            )
            with tracer.start_as_current_span("model") as model:
                model.set_attributes(
                    {
                        "openinference.span.kind": "LLM",
                        "llm.model_name": "adder",
                        "llm.token_count.prompt": 10,
                        "llm.token_count.completion": 5,
                        "input.value": f"{n} + {n}",
                        "output.value": answer,
                    }
                )
    provider.shutdown()


def main(folder: Path) -> None:
    port = find_port()
    url = f"http://127.0.0.1:{port}"
    settings = {
        "PHOENIX_WORKING_DIR": str(folder / "phoenix"),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(find_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    (folder / "phoenix").mkdir()
    command = [str(Path(sys.executable).with_name("phoenix")), "serve"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=log)
    try:
        for _ in range(PATIENCE):
            try:
                httpx.get(f"{url}/healthz", timeout=5).raise_for_status()
                break
            except httpx.HTTPError:
                sleep(1)
        send(url)
        client = Client(base_url=url)
        for _ in range(PATIENCE):
            spans = client.spans.get_spans_dataframe(project_identifier="sums", limit=1_000)
            if len(spans) == 2 * SUMS:
                break
            sleep(1)
    finally:
        server.terminate()
        server.wait(60)
    spans.to_csv(folder / "spans.csv")
    spans.to_json(folder / "spans.jsonl", orient="records", lines=True)
    spans.to_parquet(folder / "spans.parquet")
    print(json.dumps({"version": version("arize-phoenix"), "spans": len(spans)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
