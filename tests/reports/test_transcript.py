"""A conversation as people read it, from whatever a record holds."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from calipers.reports.data.transcript import (
    MOST_TURNS,
    choose_marks,
    list_pictures,
    read_transcript,
)
from calipers.reports.pages.environment import make_environment

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()


def show(turns: Any, **options: Any) -> str:
    template = make_environment().from_string(
        '{% from "parts/transcript.html" import transcript %}{{ transcript(turns, **options) }}'
    )
    return template.render(turns=turns, options=options)


def call(number: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def outline(record: dict[str, Any]) -> list[tuple[str, list[str], list[tuple[str, str | None]]]]:
    return [
        (
            turn.role,
            [f"{p.kind}: {p.text}" for p in turn.parts],
            [(c.name, c.reply) for c in turn.calls],
        )
        for turn in read_transcript(record)
    ]


def test_the_reply_of_a_tool_stands_with_its_call() -> None:
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Where is order 4100?"}]},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "I look it up.",
            "tool_calls": [
                call("b", "find", '{"order": 4100}'),
                call("a", "find", {"order": 7}),
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "lost"},
        {"role": "tool", "tool_call_id": "b", "content": '{"status": "shipped"}'},
        {"role": "assistant", "content": "It is delivered."},
    ]
    expected = [
        ("system", ["text: Be brief."], []),
        ("user", ["text: Where is order 4100?"], []),
        (
            "assistant",
            ["reasoning: I look it up."],
            [("find", '{"status": "shipped"}'), ("find", "lost")],
        ),
        ("assistant", ["text: It is delivered."], []),
    ]
    assert outline({"messages": said, "answer": "delivered"}) == expected
    assert outline({"messages": json.dumps(said), "answer": "delivered"}) == expected
    assert read_transcript({"messages": said})[2].calls[0].arguments == (("order", "4100"),)


def test_anthropic_and_responses_shapes() -> None:
    anthropic = [
        {"role": "user", "content": "Weather in Łódź?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "a tool knows"},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Łódź"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "no such city"}],
                }
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "I do not know."}]},
    ]
    turns = read_transcript({"messages": anthropic})
    assert [turn.role for turn in turns] == ["user", "assistant", "assistant"]
    assert turns[1].calls[0].reply == "no such city"
    assert turns[1].calls[0].failed
    responses = [
        {"role": "user", "content": "7 × 8?"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "multiply"}]},
        {"type": "function_call", "call_id": "c", "name": "times", "arguments": '{"a": 7}'},
        {"type": "function_call_output", "call_id": "c", "output": "56"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "56"}]},
    ]
    assert outline({"messages": responses}) == [
        ("user", ["text: 7 × 8?"], []),
        ("assistant", ["reasoning: multiply"], []),
        ("assistant", [], [("times", "56")]),
        ("assistant", ["text: 56"], []),
    ]


def test_a_record_without_messages_is_a_question_and_an_answer() -> None:
    trace = {"tool_calls": [{"tool_name": "search", "args": {"q": "x"}, "success": False}]}
    record = {"input": "Why?", "cot": "Because.", "answer": "So.", "trace": json.dumps(trace)}
    assert outline(record) == [
        ("user", ["text: Why?"], []),
        ("assistant", [], [("search", None)]),
        ("assistant", ["reasoning: Because.", "text: So."], []),
    ]
    assert read_transcript(record)[1].calls[0].failed
    assert read_transcript({}) == []
    asked = [{"role": "user", "content": "Why?"}]  # a task's own messages: the answer is not there
    assert outline({"messages": asked, "answer": "So."})[-1] == ("assistant", ["text: So."], [])


def test_thoughts_aloud_are_reasoning_once() -> None:
    said = [{"role": "assistant", "content": "<think>7 + 9</think>\n16"}]
    expected: list[Any] = [("assistant", ["reasoning: 7 + 9", "text: 16"], [])]
    assert outline({"messages": said, "cot": "7 + 9", "answer": "16"}) == expected
    cut_off = [{"role": "assistant", "content": "<think>7 + 9 is"}]
    assert outline({"messages": cut_off}) == [("assistant", ["reasoning: 7 + 9 is"], [])]


def test_pictures_are_shown_only_if_they_are_some() -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image_url", "image_url": "https://elsewhere.example/x.png"},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,PHN2Zz4="}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,PHN2Zz4="}},
    ]
    turns = read_transcript({"messages": [{"role": "user", "content": parts}]})
    assert [bool(part.data) for part in turns[0].parts] == [True, True, False, False, False]
    assert len(list_pictures(turns)) == 2
    page = show(turns, pictures="/pictures/")
    assert page.count("<img") == 2
    assert 'src="/pictures/1"' in page
    assert "picture at https://elsewhere.example/x.png" in page
    assert "src=" not in show(turns)  # in a file, nothing is loaded at all


@pytest.mark.parametrize(
    "messages",
    [
        *(
            "no messages",
            "[",
            "[1, null, []]",
            7,
            [[["deep"]]],
            {"role": "user"},
            [{}],
            [{"role": 7}],
        ),
        [{"role": ["user"], "type": {"a": 1}, "content": {"type": []}}],
        [{"role": "assistant", "tool_calls": "all"}, {"role": "tool", "content": None}],
        [{"role": "assistant", "tool_calls": [{"function": None}, 7, {"id": {}, "name": []}]}],
        [{"role": "user", "content": [[[[[["deep"]]]]]]}],
        "[" * 100_000,
    ],
    ids=lambda each: repr(each)[:40],
)
def test_anything_may_stand_in_a_record(messages: Any) -> None:
    turns = read_transcript({"messages": messages, "input": "Q", "answer": "A"})
    assert turns[-1].text == "A"
    assert "A" in show(turns)


def test_everything_is_escaped_and_cut_with_a_way_to_the_whole() -> None:
    attack = "<script>alert(1)</script>\x1b[31m" + "a" * 5000
    said = [
        {"role": attack[:30], "name": attack, "content": attack, "thinking": attack},
        {
            "role": "assistant",
            "content": attack,
            "tool_calls": [call("1", attack, {attack: attack})],
        },
        {"role": "tool", "tool_call_id": "1", "content": attack},
        {"role": "assistant", "content": [{"type": "image_url", "image_url": attack}]},
    ]
    page = show(read_transcript({"messages": said}), most=100, whole="/record.json")
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    assert page.count('<a href="/record.json">') == 5
    assert len(page) < 20_000


def test_of_very_many_messages_the_first_and_the_last_are_read() -> None:
    said = [{"role": "user", "content": f"message {n}"} for n in range(MOST_TURNS + 1000)]
    turns = read_transcript({"messages": said})
    assert len(turns) == MOST_TURNS + 1
    assert [turn.left_out for turn in turns if turn.left_out] == [1000]
    assert turns[-1].text == f"message {MOST_TURNS + 999}"
    assert "1,000 further messages" in show(turns)


def test_the_target_is_marked_in_what_the_tool_replied_and_the_wrong_answer_too() -> None:
    record = {"answer": "delivered", "target": "shipped", "input": "Is 4100 shipped?"}
    reply = {"role": "tool", "content": '{"status": "shipped"}'}
    said = [
        {"role": "user", "content": "Is 4100 shipped?"},
        reply,
        {"role": "assistant", "content": "Delivered."},
    ]
    turns = read_transcript({**record, "messages": said})
    page = show(turns, marks=choose_marks(record, right=False))
    assert page.count('<mark class="right">shipped</mark>') == 1  # not in the question
    assert '<mark class="wrong">Delivered</mark>' in page
    assert choose_marks({"answer": "x" * 500, "target": None}, right=False) == {}
