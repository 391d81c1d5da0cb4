"""Have SWE-bench's harness report on instances as if it had run them: `write_swe_bench.py FOLDER`."""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

from swebench.harness.constants import LOG_REPORT, RUN_EVALUATION_LOG_DIR
from swebench.harness.reporting import make_run_report

RUN, MODEL = "first", "tiny"


def main(folder: Path) -> None:
    os.chdir(folder)
    names = [f"a__b-{n}" for n in range(20)]
    predictions = {
        name: {
            "instance_id": name,
            "model_name_or_path": MODEL,
            "model_patch": "" if place == 0 else "diff",
        }
        for place, name in enumerate(names)
    }
    for place, name in enumerate(names[2:], start=2):  # the harness broke at the second
        status = {"FAIL_TO_PASS": {"success": ["t"], "failure": []}}
        report = {
            name: {
                "patch_is_None": False,
                "patch_exists": True,
                "patch_successfully_applied": True,
                "resolved": place % 3 > 0,
                "tests_status": status,
            }
        }
        path = RUN_EVALUATION_LOG_DIR / RUN / MODEL / name / LOG_REPORT
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(report), encoding="utf-8")
    made = make_run_report(predictions, [{"instance_id": name} for name in names], RUN)
    found = json.loads(Path(made).read_text(encoding="utf-8"))
    numbers = {key: found[f"{key}_instances"] for key in ("submitted", "resolved", "error")}
    with (folder / "predictions.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(each)}\n" for each in predictions.values())
    print(json.dumps({"version": version("swebench"), "file": Path(made).name, **numbers}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
