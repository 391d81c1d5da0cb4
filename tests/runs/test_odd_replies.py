"""Every reply that a run takes can be scored: random JSON, odd numbers, nesting, half surrogates."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import calipers as cal
from calipers.records.fields import FIELDS
from calipers.runs.call_records import ReplyReader
from calipers.runs.suite import Suite
from calipers.systems.calls import Call, Fault, make_reply
from calipers.systems.http import parse_reply
from calipers.systems.journal import Journal, Tally, encode_record
from tests.examples import examples

_ODD = (
    "0 -0 -0.0 1 0.5 1e3 1E400 -1e400 1e-400 1e308 NaN Infinity -Infinity 9007199254740993 "
    "18446744073709551616 -9223372036854775809 0.1000000000000000055511151231257827 5e-324"
)
_LONG = ("7" * 400, "-" + "7" * 400, "0." + "3" * 400, "1e" + "9" * 20)
_numbers = st.sampled_from([*_ODD.split(), *_LONG])
_texts = st.one_of(
    st.sampled_from(
        [r"\ud800", r"\udc00\ud800", r"\u0000", r"\ud83d\ude00", r"\\u0000", "", " ", "4", "true"]
    ),
    st.text(max_size=5).map(lambda text: json.dumps(text)[1:-1]),
    st.text(st.characters(codec="utf-8", exclude_characters='"\\'), max_size=5).map(
        lambda text: "".join(each for each in text if each >= " ")
    ),
).map(lambda inner: f'"{inner}"')
_scalars = st.one_of(_numbers, _texts, st.sampled_from(["null", "true", "false"]))
_KEYS = (
    *("tool_calls", "agent_interactions", "agent_tasks", "tool_name", "agent_id", "success"),
    *("duration", "timestamp", "from", "to", "type", "judge", "scores", "passed", "model"),
    *("weighted_score", "rubric_hash", "flags", "prompt_tokens", "completion_tokens", "usage"),
    *("input_tokens", "output_tokens", "prompt_tokens_details", "cached_tokens", "context"),
)
_names = st.one_of(st.sampled_from([*FIELDS, *_KEYS]).map(json.dumps), _texts)


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(_names, inner).map(": ".join)
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(pairs, max_size=4).map(lambda parts: f"{{{', '.join(parts)}}}"),
        st.tuples(inner, st.sampled_from([5, 90, 120, 3000])).map(
            lambda each: "[" * each[1] + each[0] + "]" * each[1]
        ),
    )


_values = st.recursive(_scalars, _nested, max_leaves=8)


def _object(**fields: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """An object with some of the fields, of the shape that records have."""
    pairs = [
        st.tuples(st.just(json.dumps(name)), each).map(": ".join) for name, each in fields.items()
    ]
    some = st.lists(st.one_of(pairs), max_size=4)
    return some.map(lambda parts: f"{{{', '.join(dict.fromkeys(parts))}}}")


def _list(of: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(of, max_size=3).map(lambda parts: f"[{', '.join(parts)}]")


def _by_name(of: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(_texts, of).map(": ".join), max_size=2)
    return pairs.map(lambda parts: f"{{{', '.join(parts)}}}")


_any = st.one_of(_texts, _numbers, _scalars)
_tool_call = _object(
    tool_name=_texts, context=_any, agent_id=_any, success=_any, duration=_any, timestamp=_any
)
_trace = _object(
    tool_calls=_list(_tool_call),
    agent_interactions=_list(_object(**{"from": _texts, "to": _texts, "type": _any})),
    agent_tasks=_by_name(_numbers),
)
_judgment = _object(
    judge=_texts, passed=_scalars, scores=_by_name(_numbers), weighted_score=_any, flags=_list(_any)
)
_usage = _object(
    prompt_tokens=_numbers, input_tokens=_numbers, completion_tokens=_numbers, reasoning_tokens=_any
)
_shaped = _object(
    **{name: _scalars for name in FIELDS if name not in ("id", "model", "tier", "run")}
    | {
        "trace": _trace,
        "judgments": _list(_judgment),
        "usage": _usage,
        "tool_calls": _list(_tool_call),
        "observed_behaviors": _list(_texts),
        "violations": _list(_any),
    }
)
_field = st.one_of(
    st.tuples(_names, _values),
    st.tuples(
        st.sampled_from(["trace", "judgments", "usage", "messages"]).map(json.dumps), _values
    ),
).map(": ".join)
_replies = st.one_of(
    _shaped,
    _shaped,
    st.lists(_field, max_size=5).map(lambda parts: f"{{{', '.join(parts)}}}"),
    _values,
)

_TASK: dict[str, Any] = {"id": "t", "input": "2 + 2", "target": "4", "actual": "a"}


def taken(reading: ReplyReader, reply: str, number: int) -> bytes | None:
    """The journal's line of a reply, as a run writes it; None where it is refused."""
    try:
        answer = parse_reply(reply.encode("utf-8", "replace"))
        fields = reading.read_fields(Call(record=_TASK, prompt="2 + 2"), answer)
    except Fault:
        return None
    record = {"id": f"t{number}", "model": "m", "run": 1, **_TASK, **fields}
    Tally(1).add(record)
    return encode_record({**record, "id": f"t{number}"}).encode("utf-8", "replace")


@examples(60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_replies, min_size=1, max_size=4))
def test_what_a_run_takes_can_be_scored(replies: list[str]) -> None:
    suite = Suite.model_validate(
        {"name": "a", "data": "a.jsonl", "systems": [{"name": "m", "command": ["true"]}]}
    )
    reading = ReplyReader(suite)
    good = '{"answer": "4", "predicted": "a"}'
    lines = [taken(reading, reply, number) for number, reply in enumerate([good, *replies])]
    kept = [line for line in lines if line is not None]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        journal = Journal(path)
        for line in kept:
            journal.append(line)
        journal.close()
        read = list(Journal(path).read_lines())
        assert len(read) == len(kept)
        assert cal.score(path).records == len(kept)
        policy = {"thresholds": {"blocking": {"accuracy": "1%"}}}
        assert cal.gate(path, policy=policy).records == len(kept)


def test_a_system_may_reply_in_the_numbers_of_numpy() -> None:
    given = {
        "answer": np.str_("4"),
        "cost_usd": np.float32(0.5),
        "prompt_tokens": np.int64(7),
        "prob_correct": np.float64(0.25),
        "usage": {"input_tokens": np.int32(7)},
        "scores": np.array([1.5, 2.5]),
    }
    suite = Suite.model_validate(
        {"name": "a", "data": "a.jsonl", "systems": [{"name": "o1", "command": ["true"]}]}
    )
    call = Call(record=_TASK, prompt="2 + 2")
    fields = ReplyReader(suite).read_fields(call, make_reply(given))
    assert json.loads(encode_record(fields)) == {
        "answer": "4",
        "cost_usd": 0.5,
        "prompt_tokens": 7,
        "prob_correct": 0.25,
        "usage": {"input_tokens": 7},
        "scores": [1.5, 2.5],
    }


def test_a_reply_nested_beyond_measure_spoils_its_record_only() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert make_reply({"answer": "4", "own": deep}).fields["answer"] == "4"
