"""Have promptfoo evaluate a provider of our own: `write_promptfoo.py FOLDER`, where it is installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

KINDS = ("json", "jsonl", "csv")


def main(folder: Path) -> None:
    suite = {
        "prompts": ["{{n}} + {{n}}", "What is {{n}} + {{n}}?"],
        "providers": [f"file://{Path(__file__).with_name('promptfoo_adder.cjs')}"],
        "tests": [
            {
                "vars": {"n": n},
                "assert": [{"type": "equals", "value": str(2 * n), "metric": "same"}],
            }
            for n in range(20)
        ],
    }
    (folder / "suite.json").write_text(json.dumps(suite), encoding="utf-8")
    outputs = [folder / f"output.{kind}" for kind in KINDS]
    command = ["node_modules/.bin/promptfoo", "eval", "--no-cache", "--no-table"]
    command += ["-c", str(folder / "suite.json"), "-j", "1"]
    for output in outputs:
        command += ["-o", str(output)]
    environment = {
        "PROMPTFOO_CONFIG_DIR": str(folder / "config"),
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PROMPTFOO_FAILED_TEST_EXIT_CODE": "0",
    }
    subprocess.run(command, check=True, env={**os.environ, **environment}, stdout=sys.stderr)
    stats = json.loads(outputs[0].read_text(encoding="utf-8"))["results"]["stats"]
    about = json.loads(Path("node_modules/promptfoo/package.json").read_text(encoding="utf-8"))
    rate = stats["successes"] / (stats["successes"] + stats["failures"])
    print(json.dumps({"version": about["version"], "pass_rate": rate}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
