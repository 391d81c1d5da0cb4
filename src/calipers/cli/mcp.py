"""`calipers mcp`."""

from __future__ import annotations

from pathlib import Path

import click

from calipers.support.errors import UsageError, require_extra


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=".", metavar="[FOLDER]")
def mcp(folder: Path) -> None:
    """Answer a coding agent's questions about the results in FOLDER, over MCP on stdin and stdout.

    The tools only read: list runs, read a verdict, score, compare, explain, list failed samples.
    An agent's configuration names the command, for example: calipers mcp results/
    """
    if not folder.exists():
        raise UsageError(f"{folder}: no such folder", fix="name a folder with results, or a file")
    require_extra("mcp: the protocol is not installed", extra="mcp", modules=("mcp",))
    from calipers.dashboard.mcp_server import make_server  # noqa: PLC0415 (loads the protocol)

    make_server(folder).run("stdio")
