"""Have Codex work on a task, by a model that is written down: `write_codex.py FOLDER`.

Leaves the rollout of its session below `sessions/`, and what `codex exec --json` prints in
`events.jsonl`. The model asks for a command, and then says that it is done.
"""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

TASK = "Write ok.txt."
TURN = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 120,
}
COMMAND = {"cmd": "echo ok > ok.txt", "command": ["bash", "-lc", "echo ok > ok.txt"]}


class Model(BaseHTTPRequestHandler):
    """Answers as the Responses API does, in a stream."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = [item.get("type") for item in asked["input"]]
        names = {tool.get("name") for tool in asked.get("tools", ())}
        name = next(
            (name for name in ("exec_command", "shell", "shell_command") if name in names), ""
        )
        item: dict[str, Any] = {"type": "message", "role": "assistant", "id": "m1"}
        item["content"] = [{"type": "output_text", "text": "Done."}]
        if "function_call_output" not in said:
            item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": name}
            item["arguments"] = json.dumps(COMMAND)
        response = {"id": f"r{len(said)}", "usage": TURN, "output": [item]}
        events = [
            {"type": "response.created", "response": {"id": response["id"]}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        ]
        content = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


def main(folder: Path) -> None:
    codex = Path("node_modules/.bin/codex").absolute()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Thread(target=server.serve_forever, daemon=True).start()
    work, home = folder / "work", folder / "home"
    work.mkdir()
    home.mkdir()
    (home / "config.toml").write_text(
        f"""
model = "gpt-5-mini"
model_provider = "written"
[model_providers.written]
name = "written"
base_url = "http://127.0.0.1:{server.server_port}/v1"
wire_api = "responses"
env_key = "WRITTEN_KEY"
""",
        encoding="utf-8",
    )
    sandbox = "--dangerously-bypass-approvals-and-sandbox"
    done = subprocess.run(
        [codex, "exec", "--json", "--skip-git-repo-check", sandbox, TASK],
        cwd=work,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CODEX_HOME": str(home),
            "WRITTEN_KEY": "none",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "events.jsonl").write_text(done.stdout, encoding="utf-8")
    (home / "sessions").rename(folder / "sessions")
    told = subprocess.run([codex, "--version"], capture_output=True, text=True, check=True)
    written = (work / "ok.txt").read_text(encoding="utf-8").strip()
    print(json.dumps({"version": told.stdout.split()[-1], "task": TASK, "written": written}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
