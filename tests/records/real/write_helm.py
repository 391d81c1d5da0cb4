"""Have HELM run two scenarios of its own: `write_helm.py FOLDER`, by its own interpreter.

The model is a client of this file, which knows half of the answers.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from helm.benchmark.adaptation.adapter_spec import ADAPT_MULTIPLE_CHOICE_SEPARATE_ORIGINAL
from helm.benchmark.adaptation.common_adapter_specs import (
    get_multiple_choice_separate_adapter_spec,
)
from helm.benchmark.metrics.common_metric_specs import get_exact_match_metric_specs
from helm.benchmark.run import build_parser, helm_run
from helm.benchmark.run_spec import RunSpec, run_spec_function
from helm.benchmark.scenarios.scenario import ScenarioSpec
from helm.clients.simple_client import SimpleClient
from helm.common.request import Request, RequestResult, Token

MODEL = "simple/halves"
INSTANCES = 20
# The first is asked in lower case too, which HELM calls a perturbation.
ENTRIES = ("simple_mcqa:data_augmentation=lower,", "simple_classification:", "likelihoods:")
UNLIKELY = -100.0


class Halves(SimpleClient):
    """Takes numbers above 59 for even, all of them in lower case; answers in letters if asked so."""

    def make_request(self, request: Request) -> RequestResult:
        """Answer; of a question with its answer, say how likely that is."""
        result = super().make_request(request)
        if not request.echo_prompt:
            return result
        *_, said = request.prompt.split()
        logprob = -1.0 if said == name_parity(request.prompt) else UNLIKELY
        result.completions[0].tokens[:] = [Token(text=said, logprob=logprob)]
        return result

    def invoke_model(self, raw_request: Any) -> dict[str, Any]:
        """Return the last question's answer."""
        asked = raw_request["prompt"].rsplit("\n\n", 1)[-1]
        parity = name_parity(asked)
        letter = "A" if parity == "Even" else "B"
        return {"completions": [f" {letter if 'A. ' in asked else parity}"]}


def name_parity(asked: str) -> str:
    """Return what the model takes the number in a question for."""
    number = next(int(word) for word in asked.split() if word.isdecimal())
    return "Even" if number % 2 == 0 or number > 59 or "is " in asked else "Odd"


@run_spec_function("likelihoods")
def compare_likelihoods() -> RunSpec:
    """Ask for each reference how likely it is."""
    return RunSpec(
        name="likelihoods",
        scenario_spec=ScenarioSpec(
            class_name="helm.benchmark.scenarios.simple_scenarios.SimpleMCQAScenario"
        ),
        adapter_spec=get_multiple_choice_separate_adapter_spec(
            ADAPT_MULTIPLE_CHOICE_SEPARATE_ORIGINAL
        ),
        metric_specs=get_exact_match_metric_specs(),
        groups=["likelihoods"],
    )


def register(folder: Path) -> None:
    """Write the files that tell HELM of the model."""
    deployment = {
        "name": MODEL,
        "model_name": MODEL,
        "tokenizer_name": "simple/tokenizer1",
        "max_sequence_length": 2048,
        "client_spec": {"class_name": f"{Halves.__module__}.{Halves.__name__}"},
    }
    model = {
        "name": MODEL,
        "display_name": "Halves",
        "description": "Knows half of the answers.",
        "creator_organization_name": "none",
        "access": "open",
        "tags": ["TEXT_MODEL_TAG", "FULL_FUNCTIONALITY_TEXT_MODEL_TAG"],
    }
    folder.mkdir()
    for name, found in (("model_deployments", deployment), ("model_metadata", model)):
        key = name if name == "model_deployments" else "models"
        (folder / f"{name}.yaml").write_text(json.dumps({key: [found]}))  # JSON is YAML


def read_means(path: Path) -> dict[str, float]:
    """Return HELM's share of exact matches, as the instances are, and perturbed."""
    found = {}
    for each in json.loads((path / "stats.json").read_text()):
        name = each["name"]
        if name["name"] == "exact_match" and name["split"] == "test":
            found[name.get("perturbation", {}).get("computed_on", "plain")] = each["mean"]
    return found


def main(folder: Path) -> None:
    register(folder / "prod_env")
    helm_run(
        build_parser().parse_args(
            [
                *("--run-entries", *(f"{each}model={MODEL}" for each in ENTRIES)),
                *("--suite", "tiny", "--exit-on-error", "--num-threads", "1"),
                *("--max-eval-instances", str(INSTANCES), "--num-train-trials", "2"),
                *("--local-path", str(folder / "prod_env"), "--output-path", str(folder / "out")),
            ]
        )
    )
    runs = {
        each.parent.name: read_means(each.parent)
        for each in (folder / "out" / "runs" / "tiny").glob("*/stats.json")
    }
    print(json.dumps({"version": version("crfm-helm"), "runs": runs}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
