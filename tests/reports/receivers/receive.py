"""Read what was written for others as they read it: `receive.py junit SCHEMA FILE`, `receive.py wandb FILES`.

Runs in an environment of its own (`make test-logs`), and prints what was understood as JSON.
"""

import json
import sys
from typing import Any


def read_junit(schema: str, file: str) -> dict[str, Any]:
    """Return what the schema of Jenkins objects to, and what a client reads."""
    import xmlschema
    from junitparser import JUnitXml

    suites = JUnitXml.fromfile(file)
    cases = [(case.classname, case.name, case.result) for suite in suites for case in suite]
    return {
        "errors": [error.reason for error in xmlschema.XMLSchema(schema).iter_errors(file)],
        "counts": [suites.tests, suites.failures, suites.errors],
        "outcomes": {f"{by}/{name}": [type(each).__name__ for each in r] for by, name, r in cases},
    }


def read_wandb(files: list[str]) -> dict[str, Any]:
    """Return the summary, the configuration and the end of each run that W&B kept offline."""
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    found = {}
    for file in files:
        store, told = DataStore(), {"summary": {}, "config": {}}
        store.open_for_scan(file)
        while (content := store.scan_data()) is not None:
            record = Record()
            record.ParseFromString(content)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                told |= {"name": record.run.display_name, "project": record.run.project}
                told["config"] |= {
                    e.key: json.loads(e.value_json) for e in record.run.config.update
                }
            elif kind == "summary":
                given = {e.key or ".".join(e.nested_key): e for e in record.summary.update}
                told["summary"] |= {name: json.loads(e.value_json) for name, e in given.items()}
            elif kind == "exit":
                told["exit_code"] = record.exit.exit_code
        found[told["name"]] = told
    return found


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    print(json.dumps(read_junit(*arguments) if kind == "junit" else read_wandb(arguments)))
