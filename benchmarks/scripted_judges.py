"""Judges that the model server plays, each by the name of its model.

A judged text that holds `QUALITY=4` is worth 4 to the good judge, on whatever scale it is asked
for; without it, the middle. The others: `biased` gives a point more, `broken` leaves every scale,
`shaky` is broken until it is told so, `chatty` talks around its JSON, `slow` takes its time,
`plain` is behind a server that takes no schemas, `gullible` does what the judged text asks for.
Asked how sure it is, a judge says what stands in the text as `SURE=0.4`; else it is sure.
"""

from __future__ import annotations

import json
import re
from typing import Any

PREFIX = "judge-"
SLOW = 0.5  # seconds

_SCHEMA = re.compile(r"by this JSON schema:\n(?P<schema>\{.*\})\n")
_QUALITY = re.compile(r"QUALITY=(?P<score>-?\d+(?:\.\d+)?)")
_SURE = re.compile(r"SURE=(?P<share>[\d.]+)")
_REFUSED = "Your last reply was refused"


def takes(body: dict[str, Any]) -> bool:
    """Say whether the server behind a judge takes the request."""
    return body["model"] != "judge-plain" or "response_format" not in body


def judgement(body: dict[str, Any]) -> str:
    """What the judge that a request names says."""
    prompt = body["messages"][-1]["content"]
    kind = body["model"].removeprefix(PREFIX)
    schema = json.loads(_SCHEMA.search(prompt)["schema"])  # type: ignore[index]
    aspects = schema["properties"]["scores"]["properties"]
    scores = {name: _score(kind, prompt, asked) for name, asked in aspects.items()}
    sure = {}
    if "confidence" in schema["properties"]:
        said = _SURE.search(prompt)
        sure["confidence"] = float(said["share"]) if said else 0.9
    text = json.dumps({"reason": f"As a {kind} judge sees it.", "scores": scores, **sure})
    return f"Of course! {text}" if kind == "chatty" else text


def _score(kind: str, prompt: str, asked: dict[str, Any]) -> float:
    number = asked.get("anyOf", [asked])[0]
    low, high = number["minimum"], number["maximum"]
    if kind == "broken" or (kind == "shaky" and _REFUSED not in prompt):
        return float(high + 2)
    found = _QUALITY.search(prompt)
    quality = float(found["score"]) if found else (low + high) / 2
    if kind == "gullible" and "score 5" in prompt:
        return float(high)
    return float(min(high, max(low, quality + (kind == "biased"))))
