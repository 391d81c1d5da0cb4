"""A check of how similar the reply is to a text."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import polars as pl

from calipers.metrics.checks.kind import (
    NOT_NEGATIVE,
    Replies,
    ReplyTest,
    Schema,
    make_object_schema,
    read_keys,
    read_limit,
    read_template,
)
from calipers.support.field_paths import Template
from calipers.support.strict_model import refuse

_WAYS = ("jaccard", "cosine", "semantic")
_AT_LEAST = 0.8


@dataclass(frozen=True)
class Similar(ReplyTest):
    """The reply is similar to a text."""

    key = "similar"
    says = (
        "The similarity of the reply and `to` is at least `at_least` (0.8 unless set): `cosine` of "
        "TF-IDF (the default), `jaccard` of words, or `semantic`, by `semantic_model`."
    )
    example: ClassVar[Any] = {"to": "{reference}", "kind": "cosine", "at_least": 0.6}
    schema: ClassVar[Schema] = make_object_schema(
        {
            "to": {"type": "string"},
            "kind": {"enum": list(_WAYS), "default": "cosine"},
            "at_least": {**NOT_NEGATIVE, "maximum": 1, "default": _AT_LEAST},
        },
        "to",
    )

    to: Template = field(compare=False)
    way: Literal["jaccard", "cosine", "semantic"]
    at_least: float

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        fix = 'for example similar: {to: "{reference}", kind: cosine, at_least: 0.6}'
        found = read_keys(value, ("to", "kind", "at_least"), ("to",), fix)
        way = found.get("kind", "cosine")
        if way not in _WAYS:
            refuse(f"{way} is not a kind of similarity", fix=", ".join(_WAYS), at=("kind",))
        at_least = read_limit(found.get("at_least", _AT_LEAST), fix=fix, at=("at_least",))
        if at_least > 1:
            refuse(f"at_least: {at_least} is above 1", fix=fix, at=("at_least",))
        return cls(read_template(found["to"], at=("to",)), way, at_least)

    @property
    def fields(self) -> tuple[str, ...]:
        return self.to.fields

    @property
    def lacks(self) -> str:
        if self.way == "semantic":
            return "no similarity: the model is unavailable, or a field is missing"
        return f"the record has no {', '.join(self.fields)}"

    def hold(self, replies: Replies) -> pl.Series:
        return self._compare(replies) >= self.at_least

    def tell(self, replies: Replies) -> pl.Series:
        return f"{self.way} similarity " + self._compare(replies).round(4).cast(pl.String)

    def _compare(self, replies: Replies) -> pl.Series:
        from calipers.metrics.similarity.words import cosine, jaccard  # noqa: PLC0415 (only where asked)

        text, to = replies.text, replies.fill(self.to)
        to = to if len(to) == len(text) else to.new_from_index(0, len(text))
        if self.way != "semantic":
            return (jaccard if self.way == "jaccard" else cosine)(text, to)
        from calipers.metrics.families.text import (  # noqa: PLC0415 (only where asked)
            SEMANTIC,
            score_semantic,
        )

        rows = (text.is_not_null() & to.is_not_null()).arg_true()
        found = score_semantic(text.gather(rows), to.gather(rows), replies.settings)[SEMANTIC]
        empty = pl.Series([None], dtype=pl.Float64).new_from_index(0, len(text))
        return empty.scatter(rows, found)


KINDS = (Similar,)
