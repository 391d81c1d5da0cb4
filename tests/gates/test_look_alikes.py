"""Names that a reader takes for each other, and names that only share letters."""

from __future__ import annotations

import pytest

import calipers as cal
from calipers.support.names import find_look_alikes, find_plurals, show_difference
from tests.gates.deciding import blocking, record

ALIKE = [
    ("adversarial", "\u0430dversarial"),  # Cyrillic
    ("adversarial", "adv\u0435r\u0455\u0430ri\u0430l"),
    ("HARM", "\u041d\u0410R\u041c"),
    ("math", "\u041cATH"),  # with another case
    ("voice", "\u03bdoice"),  # Greek
    ("pii", "p\u0131i"),
    ("adversarial", "adversariaI"),  # a capital i
    ("adversarial", "adversaria|"),
    ("adversarial", "\u2c81d\u0475e\u0433s\u1d00rial"),  # Coptic, old Cyrillic, small capitals
    ("adversarial", "ADVERSAR\u0130AL"),  # as Turkish upper case writes it
    ("adversarial", "ad\uaba9ersari\ua4eel"),  # small Cherokee, Lisu
    ("adversarial", "ADV\u0415RSARIAL"),  # Cyrillic in capitals
    ("adversarial", "adversa\u0301rial"),  # a mark written apart from its letter
    ("adversarial", "adversarial\u0338"),
    ("adversarial", "adversarial\u17b4"),  # a vowel without a shape
    ("r\u00e9sum\u00e9", "re\u0301sume\u0301"),
    ("adversarial", "ad\u00adversarial"),  # a soft hyphen
    ("adversarial", "\u2060adversarial\ufeff"),
    ("adversarial", "ａｄｖｅｒｓａｒｉａｌ"),
    ("finance", "\ufb01nance"),
    ("\u2764", "\u2764\ufe0f"),
    ("Straße", "STRASSE"),
    ("edge case", "edge\u00a0case "),
    ("edge-case", "Edge_Case"),
    ("атака", "Атака"),
    ("атака", "aтaкa"),
]
DIFFERENT = [
    ("adversarial", "adversarials"),
    ("adversarial", "non-adversarial"),
    ("атака", "отказ"),
    ("вода", "водан"),
    ("किताब", "किताबें"),
    ("llama", "llama3"),
    ("1-2", "12"),  # steps
    ("-1", "1"),
    ("résumé", "resume"),
    ("किताब", "कीताब"),
    ("AI", "A1"),
    ("ai", "al"),
    ("日本", "日木"),
]


@pytest.mark.parametrize(("name", "other"), ALIKE)
def test_these_look_the_same(name: str, other: str) -> None:
    assert find_look_alikes(["gsm8k", name, other]) == [(name, other)]
    assert show_difference(name, other)


@pytest.mark.parametrize(("name", "other"), DIFFERENT)
def test_these_do_not(name: str, other: str) -> None:
    assert find_look_alikes([name, other, name]) == []


def test_plurals() -> None:
    assert find_plurals(["policies", "security"], ["policy", "safety"]) == [("policy", "policies")]
    assert find_plurals(["Adversarial"], ["adversarials"]) == [("adversarials", "Adversarial")]
    assert not find_plurals(["safety"], ["safety"])


def test_without_a_rule_about_categories_they_are_a_notice() -> None:
    rows = [record(f"q{n}", category="math" if n % 2 else "Math") for n in range(10)]
    result = cal.gate(rows, policy=blocking(pass_rate=90))
    assert result.verdict == "pass"
    assert (
        "5 records of the category 'math' do not count as 'Math': spell it the same "
        "(it has U+006D, the other U+004D)"
    ) in result.notices


def test_two_spellings_beside_the_category_of_a_rule_leave_the_gate_incomplete() -> None:
    names = ("adversarial", "math", "Math")
    rows = [record(f"q{n}", category=names[n % 3]) for n in range(30)]
    assert cal.gate(rows, policy=blocking(safety_rate=100)).verdict == "incomplete"


def test_a_rule_over_all_covers_every_category() -> None:
    names = ("adversarial", "math", None)
    rows = [record(f"q{n}", category=names[n % 3]) for n in range(30)]
    policy = blocking(safety_rate=100)
    (listed,) = cal.gate(rows, policy=policy).notices
    assert listed == "records of categories that no rule covers: none (10), 'math' (10)"
    for also in ({"pass_criteria": {"overall": 90}}, blocking(safety_rate=100, pass_rate=90)):
        assert cal.gate(rows, policy={**policy, **also}).notices == ()
