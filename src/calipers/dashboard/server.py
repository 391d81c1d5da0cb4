"""The dashboard served: a port, an address to print, a browser to open."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from threading import Thread
from time import sleep

import uvicorn

from calipers.dashboard.app import create_app
from calipers.dashboard.assets import read_asset
from calipers.dashboard.safety import LOOPBACK, TOKEN, Guard
from calipers.metrics import catalogue
from calipers.metrics.checks.checks import Checks
from calipers.records.reading import AS_IT_IS, ReadingChoices
from calipers.support.errors import UsageError

IDLE = 2.0  # seconds without a request, after which background work starts
_LATER = ("calipers.dashboard.measuring", "calipers.dashboard.indexing", "calipers.reports.charts")


def serve(
    root: Path,
    *,
    host: str,
    port: int,
    ready: Callable[[str], None],
    field_map: Mapping[str, str] | None = None,
    checks: Checks | None = None,
    reading: ReadingChoices = AS_IT_IS,
) -> None:
    """Serve a folder until somebody stops it; `ready` is given the address to open."""
    # Neither pages nor measurements use the network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    local = host in LOOPBACK
    token = None if local else secrets.token_urlsafe(24)
    listening = _listen(host, port)
    number = listening.getsockname()[1]
    hosts = LOOPBACK if local else None
    app = create_app(
        root, hosts=hosts, token=token, field_map=field_map, checks=checks, reading=reading
    )
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
        lifespan="off",
    )
    server = _Server(config, lambda: ready(_make_address(host, number, token)))
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
        app.close()


class _Server(uvicorn.Server):
    """A server that calls `ready` once it accepts requests."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to answer, then say so."""
        await super().startup(sockets)
        self._ready()
        Thread(target=self._warm_up, daemon=True).start()

    def _warm_up(self) -> None:
        """Import what the first numbers and figures need, while no request comes in."""
        app = self.config.app
        assert isinstance(app, Guard)
        catalogue()  # what the list and an index need first
        for name in _LATER:
            while app.idle_seconds < IDLE:
                sleep(IDLE / 4)
            import_module(name)
        read_asset("vega.js")


def _make_address(host: str, port: int, token: str | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):  # noqa: S104 (a name to print, nothing is bound to it)
        shown = socket.gethostname()
    return f"http://{shown}:{port}/" + (f"?{TOKEN}={token}" if token else "")


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket on the port asked for, so that two dashboards never share one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(128)
    except (OSError, OverflowError) as error:
        made.close()
        raise UsageError(
            f"port {port} of {host}: {getattr(error, 'strerror', None) or error}",
            fix="another dashboard may have it; --port 0 takes any that is free",
        ) from error
    return made
