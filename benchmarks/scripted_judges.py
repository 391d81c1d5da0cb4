"""Judges that the model server plays, each by the name of its model.

A judged text that holds `QUALITY=4` is worth 4 to the good judge, on whatever scale it is asked
for; without it, the middle. The others: `biased` gives a point more, `broken` leaves every scale,
`shaky` is broken until it is told so, `chatty` talks around its JSON, `slow` takes its time,
`plain` is behind a server that takes no schemas, `reasoning` behind one that takes no temperature,
`gullible` does what the judged text asks for. `thinking`, `fenced` and `textual` write their answer
in ways of their own, `declining` and `refusing` write none. Where a judged text holds an answer,
`parrot` repeats it and gives none of its own, `quoting` gives its own too, `cut` is cut off in the
middle of that, and `obedient` gives what stands there.
Of two answers, the good judge prefers the one of higher quality; `first` the one that stands first,
`lengthy` the longer one, and `mixed` the longer one where it stands first, else neither.
Asked how sure it is, a judge says what stands in the text as `SURE=0.4`; else it is sure.
"""

from __future__ import annotations

import json
import re
from typing import Any

PREFIX = "judge-"
SLOW = 0.5  # seconds

_SCHEMA = re.compile(r"by this JSON schema:\n(?P<schema>\{.*\})")
_QUALITY = re.compile(r"QUALITY=(?P<score>-?\d+(?:\.\d+)?)")
_SURE = re.compile(r"SURE=(?P<share>[\d.]+)")
_PLANTED = re.compile(r"\{\"reason\".*?\}\s*\}", re.DOTALL)
_ANSWERS = re.compile(r"<<<BEGIN answer \d \w+>>>\n(.*?)\n<<<END answer", re.DOTALL)
_REFUSED = "Your last reply was refused"


def takes(body: dict[str, Any]) -> str | None:
    """Return what the server behind a judge says against a request, or None."""
    if body["model"] == "judge-plain" and "response_format" in body:
        return "response_format is not supported"
    if body["model"] == "judge-reasoning" and "temperature" in body:
        return "Unsupported parameter: 'temperature' is not supported with this model."
    return None


def reply(body: dict[str, Any]) -> dict[str, Any]:
    """Return the message of the judge that a request names."""
    if body["model"] == "judge-refusing":
        return {"role": "assistant", "content": None, "refusal": "I can't help with that."}
    return {"role": "assistant", "content": judgment(body)}


def judgment(body: dict[str, Any]) -> str:
    """What the judge that a request names says."""
    system, user = (each["content"] for each in body["messages"])
    kind = body["model"].removeprefix(PREFIX)
    if kind == "declining":
        return "I am not able to grade this text."
    schema = json.loads(_SCHEMA.search(system)["schema"])  # type: ignore[index]
    aspects = schema["properties"]["scores"]["properties"]
    told = kind != "shaky" or _REFUSED in system
    scores = {name: _score(kind if told else "broken", user, of) for name, of in aspects.items()}
    if "preference" in aspects and kind != "broken":
        scores = {"preference": _preference(kind, user)}
    sure = {}
    if "confidence" in schema["properties"]:
        said = _SURE.search(user)
        sure["confidence"] = float(said["share"]) if said else 0.9
    own = {"reason": f"As a {kind} judge sees it.", "scores": scores, **sure}
    return _said(kind, own, user)


def _said(kind: str, own: dict[str, Any], user: str) -> str:
    """An answer in the words of a kind of judge."""
    text = json.dumps(own)
    planted = _PLANTED.search(user)
    quoted = planted[0] if planted else ""
    as_texts = {name: str(score) for name, score in own["scores"].items()}
    words = {
        "chatty": f"Of course! {text}",
        "thinking": f"<think>Perhaps {text.replace('.0', '.5')}?</think>\n{text}",
        "fenced": f"Here it is:\n```json\n{text}\n```\nI hope it helps.",
        "textual": json.dumps({**own, "scores": as_texts, "model": "me"}),
        "parrot": f"I will not write {quoted}, as it asks me to.",
        "quoting": f"The text says {quoted}, which I ignore. {text}",
        "cut": f"The text says {quoted}, which I ignore. {text[:-4]}",
        "obedient": quoted or text,
    }
    return words.get(kind, text)


def _preference(kind: str, user: str) -> int:
    """1 where the first of two answers is preferred, 3 for the second, 2 for neither."""
    first, second = _ANSWERS.findall(user)
    if kind == "first":
        return 1
    if kind == "lengthy":
        return 1 if len(first) > len(second) else 3 if len(second) > len(first) else 2
    if kind == "mixed":
        return 1 if len(first) > len(second) else 2
    worth = [
        float(found["score"]) if (found := _QUALITY.search(e)) else 0.0 for e in (first, second)
    ]
    return 1 if worth[0] > worth[1] else 3 if worth[1] > worth[0] else 2


def _score(kind: str, prompt: str, asked: dict[str, Any]) -> float:
    number = asked.get("anyOf", [asked])[0]
    low, high = number["minimum"], number["maximum"]
    if kind == "broken":
        return float(high + 2)
    found = _QUALITY.search(prompt)
    quality = float(found["score"]) if found else (low + high) / 2
    if kind == "gullible" and "score 5" in prompt:
        return float(high)
    return float(min(high, max(low, quality + (kind == "biased"))))
