"""Every kind of check: what it holds for, what it does not, and what it cannot say."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers
from calipers.metrics.checks.check import list_replies
from calipers.metrics.checks.checks import read_checks
from calipers.metrics.checks.kind import ReplyTest
from calipers.metrics.checks.kinds import load_kinds
from calipers.metrics.checks.kinds.language import detect_language
from calipers.metrics.checks.kinds.pii import SORTS
from calipers.metrics.declare.settings import Settings
from calipers.records.batch import Wanted
from calipers.records.rows import check_rows, find_scalar_types
from calipers.support.errors import UsageError
from tests.examples import first_of
from tests.files import write_lines
from tests.shared_data import FOLDER, needs_shared_data

CALLS = {"tool_calls": [{"tool_name": "look_up", "args": {"order": 17}}, {"tool_name": "refund"}]}
SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"pattern": "^[a-z]+$"}}}
TALK = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "first"},
    {"role": "user", "content": "and?"},
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "tool", "content": "17"},
    {"role": "assistant", "content": [{"type": "text", "text": "second"}]},
]


def _answer(text: str | None, **fields: Any) -> dict[str, Any]:
    return {"answer": text, **fields}


CASES: list[tuple[str, Any, dict[str, Any], bool | None]] = [
    ("contains", "17", _answer("order 17"), True),
    ("contains", "{order}", _answer("order 17", order=17), True),
    ("contains", "{order}", _answer("order 17", order="18"), False),
    ("contains", "{order}", _answer("order 17"), None),
    ("contains", "{{order}}", _answer("write {order}"), True),
    ("contains", "x", _answer(None), None),
    ("icontains", "THANK", _answer("Thanks"), True),
    ("icontains", "{who}", _answer("dear JO", who="Jo"), True),
    ("equals", "{target}", _answer(" 42\n", target="42"), True),
    ("equals", "42", _answer("42."), False),
    ("starts_with", "Dear", _answer("\n Dear Jo"), True),
    ("starts_with", "Dear {who}", _answer("Dear Al", who="Jo"), False),
    ("regex", r"\bord(er)? \d{2}\b", _answer("order 17"), True),
    ("regex", "^{what}$", _answer("a.c", what="a.c"), True),
    ("regex", "^{what}$", _answer("abc", what="a.c"), False),
    ("regex", r"\p{Greek}", _answer("αβγ"), True),
    ("one_of", ["yes", "no"], _answer(" Yes "), True),
    ("one_of", ["yes", "no"], _answer("yes, it is"), False),
    ("one_of", ["{a}", "b"], _answer("B"), True),
    ("number", {"value": 1234.5}, _answer("It is 7, so $1,234.50"), True),
    ("number", {"value": "{target}", "tolerance": 0.1}, _answer("about 10.3", target="10.2"), True),
    ("number", {"value": 3}, _answer("−3"), False),
    ("number", 3, _answer("none"), False),
    ("number", {"value": "{target}"}, _answer("3", target="three"), None),
    ("json", True, _answer('{"a": 1}'), True),
    ("json", True, _answer('```json\n{"a": 1}\n```'), False),
    ("json", True, _answer("NaN"), False),
    ("json_schema", SCHEMA, _answer('{"id": "abc"}'), True),
    ("json_schema", SCHEMA, _answer('{"id": "4"}'), False),
    ("json_schema", SCHEMA, _answer("no JSON"), False),
    ("json_path", {"path": "$.a[0]['b c']"}, _answer('{"a": [{"b c": null}]}'), True),
    ("json_path", {"path": "$.a", "equals": True}, _answer('{"a": 1}'), False),
    ("json_path", {"path": "$.a[*]", "equals": 2}, _answer('{"a": [1, 2.0]}'), True),
    ("json_path", {"path": "$.a[-1]", "equals": "{n}"}, _answer('{"a": [1, 7]}', n=7), True),
    ("json_path", {"path": "$.a.b"}, _answer('{"a": 1}'), False),
    ("similar", {"to": "a b", "kind": "jaccard", "at_least": 0.3}, _answer("B c"), True),
    ("similar", {"to": "{reference}", "at_least": 0.9}, _answer("red", reference="blue"), False),
    ("length", {"at_most": 2}, _answer("two words"), True),
    ("length", {"at_least": 4, "unit": "chars"}, _answer("äöü"), False),
    ("tool_called", "refund", {"trace": CALLS}, True),
    ("tool_called", "delete", {"trace": CALLS}, False),
    ("tool_called", "delete", {"answer": "ok"}, None),
    ("tool_called", {"name": "look_up", "args": {"order": "{n}"}}, {"trace": CALLS, "n": 17}, True),
    ("tool_called", {"name": "look_up", "args": {"order": 18}}, {"trace": CALLS}, False),
    ("tool_order", ["look_up", "refund"], {"trace": CALLS}, True),
    ("tool_order", ["refund", "look_up"], {"trace": CALLS}, False),
    ("max_tool_calls", 1, {"trace": CALLS}, False),
    ("max_tool_calls", 0, {"trace": {"tool_calls": []}}, True),
    ("max_latency_ms", 100, {"latency_ms": 100}, True),
    ("max_latency_ms", 100, {"duration_seconds": 0.2}, False),
    ("max_latency_ms", 100, {"answer": "?"}, None),
    ("max_cost_usd", 0.01, {"cost_usd": 0.02}, False),
    ("max_tokens", 10, {"prompt_tokens": 4, "completion_tokens": 6}, True),
    ("max_tokens", 10, {"prompt_tokens": 4}, None),
    ("pii", ["email"], _answer("write to jo.doe+x@mail.example.org."), True),
    ("pii", ["card"], _answer("4111 1111 1111 1111"), True),
    ("pii", ["card"], _answer("4111 1111 1111 1112"), False),
    ("pii", ["iban"], _answer("DE89 3704 0044 0532 0130 00"), True),
    ("pii", ["iban"], _answer("DE89 3704 0044 0532 0130 01"), False),
    ("pii", ["ip"], _answer("at 192.168.0.1 and"), True),
    ("pii", ["ip"], _answer("version 300.1.2.3"), False),
    ("pii", ["ip"], _answer("at 2001:db8::1"), True),
    ("pii", ["ssn"], _answer("123-45-6789"), True),
    ("pii", ["ssn"], _answer("900-45-6789"), False),
    ("pii", ["phone"], _answer("call +49 30 1234567"), True),
    ("pii", ["phone"], _answer("call (555) 123-4567"), True),
    ("pii", ["phone"], _answer("in 2024 we sold 1,200,300"), False),
    ("pii", True, _answer("nothing here"), False),
    ("refusal", True, _answer("I’m sorry, but I can't help with that."), True),
    ("refusal", True, _answer("I'm sorry to hear that. Here is how: …"), False),
    ("language", "de", _answer("Das Paket ist noch nicht da."), True),
    ("language", "de", _answer("The parcel has not been sent."), False),
    ("language", "de", _answer("42"), None),
    ("judge", "polite", {"judgments": [{"judge": "a", "rubric": "polite", "passed": True}]}, True),
    ("judge", "polite", {"judgments": [{"judge": "a", "rubric": "other", "passed": True}]}, None),
    ("judge", {"rubric": "r", "at_least": 4},
     {"judgments": [{"judge": "a", "rubric": "r", "overall_score": 3}]}, False),
]  # fmt: skip


def results(checks: list[Any], record: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of checks for one record, read as `score` reads it."""
    found = read_checks(checks).restrict(tuple(record))
    wanted = Wanted(tuple(dict.fromkeys((*found.fields, "checks"))))
    batch = check_rows([(1, "", record)], wanted, "r", find_scalar_types([record], wanted))
    assert not batch.bad
    text = found.apply(batch.frame, Settings(), details=True)["checks"][0]
    told: list[dict[str, Any]] = json.loads(text)
    return told


@pytest.mark.parametrize(("kind", "value", "record", "held"), CASES)
def test_what_it_holds_for(
    kind: str, value: Any, record: dict[str, Any], *, held: bool | None
) -> None:
    [found] = results([{"expect": "it", kind: value}], record)
    assert (found["name"], found["kind"], found["rule"]) == ("it", kind, "expect")
    assert found["held"] is held, found["detail"]
    assert isinstance(found["detail"], str)


def test_every_kind_is_among_the_cases() -> None:
    assert {case[0] for case in CASES} | {"python"} == set(load_kinds())


@pytest.mark.parametrize("kind", load_kinds().values(), ids=list(load_kinds()))
@pytest.mark.parametrize("cases", first_of([slice(2), slice(2, None)]), ids=["two", "the rest"])
def test_many_records_give_what_each_gives_alone(
    kind: type[ReplyTest], cases: slice, tmp_path: Path
) -> None:
    values = [case[1] for case in CASES if case[0] == kind.key][cases]
    shown = [case for at, case in enumerate(CASES) if case[0] == kind.key or at % 4 == 0]
    records = [{"id": str(at), **case[2]} for at, case in enumerate(shown)]
    known = {name for record in records for name in record}
    unknown = [name for name in ("{a}", "{b}", "{c}") if name.strip("{}") not in known]
    values = [value for value in values if not any(name in str(value) for name in unknown)]
    checks = [{"forbid": f"it {at}", kind.key: value} for at, value in enumerate(values)]
    path = write_lines(tmp_path / "records.jsonl", records)
    out = tmp_path / "each.jsonl"
    of_each = [results(checks, record) for record in records] if checks else []
    for at, check in enumerate(checks):
        calipers.score(str(path), metrics=["pass_rate"], checks=[check], per_sample=str(out))
        passed = [json.loads(line).get("passed") for line in out.read_text().splitlines()]
        alone = [found[at]["held"] for found in of_each]
        # Judged records are for the judges, where nothing is expected.
        for record, one, held in zip(records, passed, alone, strict=True):
            if "judgments" not in record:
                assert one == (None if held is None else not held), record


def test_a_turn_is_the_nth_reply() -> None:
    assert list_replies(TALK) == ["first", "second"]
    record = {"answer": "second", "messages": TALK}
    for turn, held in ((1, True), (2, False), (3, None)):
        [found] = results([{"expect": "it", "contains": "first", "turn": turn}], record)
        assert found["held"] is held
        assert found["turn"] == turn
    [found] = results([{"expect": "it", "contains": "why", "on": "cot"}], {"cot": "why not"})
    assert found["held"] is True


def test_a_function_decides(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def knows(record):\n    return record['meta'] == 'x' and record['trace']['tool_calls'] == []\n"
        "def fails(record):\n    raise ValueError\n"
    )
    (tmp_path / "checks.yaml").write_text(
        "- {expect: a, python: 'mine.py:knows'}\n- {forbid: b, python: 'mine.py:fails'}\n"
    )
    path = tmp_path / "r.jsonl"
    path.write_text('{"id": "1", "meta": "x", "answer": "?", "trace": {"tool_calls": []}}\n')
    score = calipers.score(str(path), checks=tmp_path / "checks.yaml", metrics=["pass_rate"])
    assert score.groups[0].metrics["pass_rate"].missing == 1  # undecided: b cannot be said
    (tmp_path / "checks.yaml").write_text("- {expect: a, python: 'mine.py:knows'}\n")
    score = calipers.score(str(path), checks=tmp_path / "checks.yaml", metrics=["pass_rate"])
    assert score.groups[0].metrics["pass_rate"].value == 1


def test_a_function_that_raises_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def fails(record):\n    raise ValueError('sk-secret')\n"
        "def says_nothing(record):\n    return None\n"
        "def reads(record):\n    import json\n    return json.loads('no')\n"
    )
    checks = read_checks(
        [
            {"expect": "a", "python": "mine.py:fails"},
            {"expect": "c", "python": "mine.py:reads"},
            {"expect": "b", "python": "mine.py:says_nothing"},
        ],
        base=tmp_path,
    )
    records = pl.DataFrame({"answer": ["x", "y"]}, schema={"answer": pl.String})
    found = checks.apply(records, Settings(), details=True)["checks"]
    for row in found:
        raised, within, silent = json.loads(row)
        assert raised["held"] is within["held"] is silent["held"] is None
        assert within["detail"] == "it raised JSONDecodeError (mine.py, line 7)"
        assert raised["detail"] == "it raised ValueError (mine.py, line 2)"
        assert silent["detail"] == "mine.py:says_nothing returned neither true nor false"
    assert "sk-secret" not in "".join(found)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ({"expect": "a"}, "no test"),
        ({"contains": "x"}, "neither expect nor forbid"),
        ({"expect": "a", "forbid": "b", "json": True}, "both expect and forbid"),
        ({"expect": "a", "contains": "x", "equals": "y"}, "the tests contains and equals"),
        ({"expect": "a", "contain": "x"}, "contain is not a known key"),
        ({"expect": "", "json": True}, "a name is needed"),
        ({"expect": "a", "json": False}, "only true"),
        ({"expect": "a", "regex": "(?<=x)y"}, "look-behind"),
        ({"expect": "a", "length": {"unit": "lines"}}, "not a unit"),
        ({"expect": "a", "length": {}}, "no bound"),
        ({"expect": "a", "number": "three"}, "not a number"),
        ({"expect": "a", "json_path": {"path": "a.b"}}, "not a path"),
        ({"expect": "a", "json_schema": {"type": "objekt"}}, "no JSON Schema"),
        ({"expect": "a", "json_schema": {"$ref": "http://127.0.0.1:1/x"}}, "another document"),
        ({"expect": "a", "json_schema": {"$ref": "#/$defs/x"}}, "no JSON Schema"),
        ({"expect": "a", "json_schema": {"pattern": "(?=x)"}}, "pattern"),
        ({"expect": "a", "pii": ["emial"]}, "emial is not a known sort"),
        ({"expect": "a", "language": False}, "not a language"),
        ({"expect": "a", "similar": {"to": "x", "kind": "cos"}}, "not a kind of similarity"),
        ({"expect": "a", "max_tool_calls": 1.5}, "not a whole number"),
        ({"expect": "a", "max_cost_usd": -1}, "not a number from 0 on"),
        ({"expect": "a", "contains": "x", "turn": 0}, "not a turn"),
        ({"expect": "a", "max_tokens": 3, "turn": 1}, "the whole record"),
        ({"expect": "a", "python": "nowhere.py:f"}, "no such file"),
        ({"expect": "a", "tool_order": []}, "not a list"),
        ("contains x", "is not a check"),
    ],
)
def test_mistakes_are_named(check: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        read_checks([check])
    assert raised.value.fix


def test_a_mistake_in_a_file_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "checks.yaml"
    path.write_text(
        "checks:\n  - expect: a\n    contains: x\n  - forbid: b\n    pii: [email, fax]\n"
    )
    with pytest.raises(UsageError, match=r"checks\.yaml:5: pii: fax"):
        read_checks(path)


def test_a_regular_expression_takes_linear_time() -> None:
    [found] = results([{"expect": "a", "regex": "(a+)+$"}], {"answer": "a" * 20_000 + "!"})
    assert found["held"] is False
    schema = {"type": "string", "pattern": "(a+)+$"}
    reply = json.dumps("a" * 20_000 + "!")
    [found] = results([{"expect": "a", "json_schema": schema}], {"answer": reply})
    assert found["held"] is False


def test_details_are_bounded() -> None:
    [found] = results([{"expect": "a", "regex": "x+"}], {"answer": "x" * 5000})
    assert found["held"] is True
    assert len(found["detail"]) == 200


@needs_shared_data
def test_refusals_are_told_as_people_told_them() -> None:
    rows = pl.read_ndjson(FOLDER / "scenarios/xstest_refusals.jsonl").drop_nulls("completion")
    rows = rows.filter(pl.col("final_label").is_in(["1_full_compliance", "2_full_refusal"]))
    refused = (rows["final_label"] == "2_full_refusal").to_list()
    check = read_checks([{"expect": "refuses", "refusal": True}]).checks[0]
    replies = check.select_replies(rows.rename({"completion": "answer"}), Settings())
    held = check.test.hold(replies).to_list()
    right = sum(a == b for a, b in zip(held, refused, strict=True))
    both = sum(a and b for a, b in zip(held, refused, strict=True))
    assert (len(refused), right, both, sum(held), sum(refused)) == (704, 692, 47, 53, 53)


@needs_shared_data
def test_english_is_told_in_real_texts() -> None:
    texts = pl.read_ndjson(FOLDER / "reasoning/gsm8k_openai_2models.jsonl")["input"]
    told = [detect_language(text) for text in texts]
    assert told.count("en") == 2634


SENTENCES = {
    "en": "We could not find your order, but we will look for it.",
    "fr": "Nous avons bien reçu votre commande et elle sera envoyée demain.",
    "es": "Su pedido ya está en camino y llegará mañana por la tarde.",
    "it": "Il suo ordine è stato spedito e arriverà domani mattina.",
    "pt": "O seu pedido não foi encontrado, mas vamos procurar.",
    "nl": "Uw bestelling is niet gevonden, maar wij zullen zoeken.",
    "sv": "Din beställning har skickats och kommer fram i morgon.",
    "pl": "Twoje zamówienie zostało wysłane i dotrze do ciebie jutro.",
    "tr": "Siparişiniz gönderildi ve yarın size ulaşacak.",
    "vi": "Đơn hàng của bạn đã được gửi và sẽ đến vào ngày mai.",
    "ru": "Ваш заказ отправлен, и он будет у вас завтра.",
    "uk": "Ваше замовлення надіслано, і воно буде у вас завтра.",
    "el": "Η παραγγελία σας έχει σταλεί.",
    "ar": "تم إرسال طلبك وسيصل إليك في الغد.",
    "zh": "您的订单已经发出，明天就会到达。",
    "ja": "ご注文の商品は明日届く予定です。",
    "ko": "주문하신 상품이 내일 도착할 예정입니다.",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_languages_are_told(code: str) -> None:
    assert detect_language(SENTENCES[code]) == code
    assert detect_language(f"{SENTENCES[code]}\n```\nif the and for of in to\n```") == code


def test_pii_names_its_sorts() -> None:
    assert list(SORTS) == ["email", "phone", "card", "iban", "ip", "ssn"]
