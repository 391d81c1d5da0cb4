"""What tests of reports share: records of every kind, hostile texts, and a reader of pages."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

Row = dict[str, Any]

HOSTILE = (
    "</script><script>window.hacked=1;alert(1)</script>",
    "<img src=x onerror=alert(2)><svg onload=alert(3)>",
    "javascript:alert(4)",
    "\"><a href='javascript:alert(5)' onclick=alert(6)>x</a>",
    "{{7*7}}{% raw %}${7*7}",
    "datum['x'] + (alert(7), 1)",
    '{"signal": "alert(8)"}',
    "\x1b[31mred\x1b]0;title\x07\u202e\u2028 \x00",
    "<!-- <style>body{display:none}</style>",
)


def records(count: int = 60, *, models: tuple[str, ...] = ("alpha", "beta")) -> list[Row]:
    """Some records with all that a report shows; the same every time."""
    chance = random.Random(7)
    rows = []
    for model in models:
        for number in range(count):
            target = str(number)
            right = chance.random() < (0.8 if model == models[0] else 0.5)
            failed = chance.random() < 0.05
            rows.append(
                {
                    "id": f"task-{number % (count // 2)}",
                    "model": model,
                    "run": number // (count // 2) + 1,
                    "category": ("sums", "words", "logic")[number % 3],
                    "input": f"What is {number}?",
                    "target": target,
                    "answer": target if right else f"not {target}",
                    "cot": f"1. Think.\n2. So {number} + 1 = {number + 1}.",
                    "prob_correct": round(chance.random(), 2),
                    "latency_ms": round(100 + 900 * chance.random(), 1),
                    "prompt_tokens": 20 + number % 7,
                    "completion_tokens": 30 + number % 11,
                    "cost_usd": round(0.001 * (1 + chance.random()), 6),
                    "passed": right,
                    "impl_rate": round(chance.random(), 2),
                    "error": "timeout: took too long" if failed else None,
                }
            )
    return rows


def hostile_records() -> list[Row]:
    """The same with a hostile text in every field that can hold one."""
    rows = records(len(HOSTILE) * 4, models=(HOSTILE[0], HOSTILE[5]))
    for number, row in enumerate(rows):
        text = HOSTILE[number % len(HOSTILE)]
        for name in ("id", "category", "input", "target", "answer", "cot"):
            row[name] = text if name != "answer" else f"{text} wrong"
        row["id"] = f"{text}{number % 20}"
        row["category"] = HOSTILE[number % 3]
        row["error"] = f"timeout: {text}" if number % 9 == 0 else None
    return rows


@dataclass
class Page(HTMLParser):
    """A page, taken apart: elements with their attributes, and the text of each."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    scripts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data
        elif data.strip():
            self.texts.append(data.strip())

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))

    def specs(self) -> dict[str, Any]:
        """The figures' JSON by the id of its element."""
        return {
            str(attributes["id"]): json.loads(text)
            for attributes, text in self.scripts
            if attributes.get("type") == "application/json"
        }


def page_of(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    return page
