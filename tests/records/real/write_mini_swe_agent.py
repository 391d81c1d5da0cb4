"""Have mini-SWE-agent work with models that are written down: `write_mini_swe_agent.py FOLDER`."""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ.update(MSWEA_SILENT_STARTUP="1", MSWEA_CONFIGURED="true")

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import (
    DeterministicToolcallModel,
    make_toolcall_output,
)

DONE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo diff"


def main(folder: Path) -> None:
    numbers: dict[str, dict[str, object]] = {}
    for name, commands in (("a__b-1", ["ls", "false", DONE]), ("a__b-2", ["pwd"] * 9)):
        outputs = []
        for place, command in enumerate(commands):
            call = f"call_{place}"
            arguments = json.dumps({"command": command})
            function = {"name": "bash", "arguments": arguments}
            calls = [{"id": call, "type": "function", "function": function}]
            actions = [{"command": command, "tool_call_id": call}]
            outputs.append(make_toolcall_output("I look.", calls, actions))
        path = folder / name / f"{name}.traj.json"
        path.parent.mkdir()
        agent = DefaultAgent(
            DeterministicToolcallModel(outputs=outputs, model_name="written"),
            LocalEnvironment(cwd=str(folder)),
            system_template="You fix bugs.",
            instance_template="Fix {{task}}.",
            step_limit=3,
            cost_limit=0,
            output_path=path,
        )
        left = agent.run("the bug")
        numbers[name] = {
            "status": left["exit_status"],
            "answer": left["submission"],
            "cost": agent.cost,
            "calls": agent.n_calls,
        }
    print(json.dumps({"version": version("mini-swe-agent"), **numbers}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
