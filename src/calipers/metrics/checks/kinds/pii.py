"""A check for personal data: patterns first, then check digits and ranges.

Only what has such a pattern is found: no names, no street addresses, no birthdays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import polars as pl

from calipers.metrics.checks.kind import Replies, ReplyTest, Schema
from calipers.support.config import shown
from calipers.support.errors import nearest
from calipers.support.strict_model import refuse

_NOT_DIGITS = re.compile(r"\D")
_PHONE_DIGITS = range(8, 16)
_CARD_DIGITS = range(13, 20)
_MOST = 50  # candidates of a reply that are checked

# How long an IBAN is, by country, as the registry of SWIFT has it.
_IBAN = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 "
    "EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 "
    "IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 "
    "NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 "
    "TN24 TR26 UA29 VA22 VG24 XK20"
)
_IBAN_LENGTHS = {entry[:2]: int(entry[2:]) for entry in _IBAN.split()}


def _is_card(text: str) -> bool:
    """Return True if the digits may be a card number: its length, and the Luhn checksum.

    >>> _is_card("4111 1111 1111 1111"), _is_card("4111 1111 1111 1112")
    (True, False)
    """
    digits = [int(digit) for digit in _NOT_DIGITS.sub("", text)]
    if len(digits) not in _CARD_DIGITS or digits[0] not in (2, 3, 4, 5, 6):
        return False
    doubled = (2 * digit - 9 * (digit > 4) for digit in digits[-2::-2])  # noqa: PLR2004
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """Return True if a text is an IBAN: the length of its country, and remainder 1 modulo 97.

    >>> _is_iban("DE89 3704 0044 0532 0130 00"), _is_iban("DE89 3704 0044 0532 0130 01")
    (True, False)
    """
    written = text.replace(" ", "").upper()
    length = _IBAN_LENGTHS.get(written[:2], 0)
    if len(written) < length or not length:
        return False
    turned = written[4:length] + written[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_phone(text: str) -> bool:
    return len(_NOT_DIGITS.sub("", text)) in _PHONE_DIGITS


def _is_ssn(text: str) -> bool:
    """Return True if the number could have been issued.

    >>> _is_ssn("123-45-6789"), _is_ssn("666-45-6789"), _is_ssn("123-00-6789")
    (True, False, False)
    """
    area, group, serial = re.split("[- ]", text)
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


class _Sort(NamedTuple):
    pattern: str  # of candidates
    is_one: Callable[[str], bool]


SORTS: Mapping[str, _Sort] = {
    "email": _Sort(
        r"[A-Za-z0-9._%+'-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.)+[A-Za-z]{2,24}\b",
        lambda _: True,
    ),
    "phone": _Sort(
        r"\+[1-9][0-9 ().-]{6,18}[0-9]|(?:\([0-9]{3}\) ?|\b[0-9]{3}[-. ])[0-9]{3}[-. ][0-9]{4}\b"
        r"|\b0[0-9]{1,4}[ /-][0-9]{3,8}(?:[ -][0-9]{2,6})*\b",
        _is_phone,
    ),
    "card": _Sort(r"\b[2-6](?:[ -]?[0-9]){12,18}\b", _is_card),
    "iban": _Sort(r"\b[A-Za-z]{2}[0-9]{2}(?: ?[A-Za-z0-9]){11,30}\b", _is_iban),
    "ip": _Sort(
        r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b|(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{1,4}\b", _is_ip
    ),
    "ssn": _Sort(r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b|\b[0-9]{3} [0-9]{2} [0-9]{4}\b", _is_ssn),
}


@dataclass(frozen=True)
class Pii(ReplyTest):
    """The reply holds personal data."""

    key = "pii"
    says = (
        "The reply holds data of one of these sorts: email, phone (international with +, North "
        "American, or with a leading 0), card (Luhn), iban (country, length, mod 97), ip (4 and "
        "6), ssn (US, in ranges that are given out). `true` stands for all of them."
    )
    example = ("email", "card")
    schema: ClassVar[Schema] = {
        "anyOf": [{"const": True}, {"type": "array", "items": {"enum": list(SORTS)}, "minItems": 1}]
    }

    sorts: tuple[str, ...]

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        if value is True:
            return cls(tuple(SORTS))
        if not isinstance(value, list | tuple) or not value:
            refuse(f"{shown(value)} is not a list", fix="for example pii: [email, card]")
        for at, each in enumerate(value):
            if each not in SORTS:
                refuse(
                    f"{shown(each)} is not a known sort", fix=nearest(str(each), SORTS), at=(at,)
                )
        return cls(tuple(dict.fromkeys(value)))

    @property
    def sentence(self) -> str:
        return f"none of {', '.join(self.sorts)}"

    def hold(self, replies: Replies) -> pl.Series:
        return self._find(replies.text).is_not_null().set(replies.text.is_null(), None)

    def tell(self, replies: Replies) -> pl.Series:
        return self._find(replies.text).fill_null(self.sentence)

    def _find(self, texts: pl.Series) -> pl.Series:
        """Return `sort: text` of the first finding in each reply; null without one."""
        found: dict[int, str] = {}
        for sort in self.sorts:
            rows = texts.str.contains(SORTS[sort].pattern).fill_null(value=False).arg_true()
            candidates = texts.gather(rows).str.extract_all(SORTS[sort].pattern)
            for row, texts_there in zip(rows, candidates, strict=True):
                for each in texts_there.head(_MOST) if row not in found else ():
                    if SORTS[sort].is_one(each):
                        found[row] = f"{sort}: {each}"
                        break
        empty = pl.Series([None], dtype=pl.String).new_from_index(0, len(texts))
        return empty.scatter(list(found), list(found.values())) if found else empty


KINDS = (Pii,)
