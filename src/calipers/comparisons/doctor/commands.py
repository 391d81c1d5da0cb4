"""The commands that fit what the files hold, ready to be copied."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from shlex import quote

from calipers.comparisons.doctor.results import HeldFile, Support
from calipers.records.foreign import map_options

_SMALL = 0.05  # a difference that people mostly want to see
_SEVERAL = 2


def list_commands(
    given: Sequence[str], files: Sequence[HeldFile], support: Support, present: Collection[str]
) -> Iterator[str]:
    """Yield commands with the files as the user named them, quoted for a shell."""
    maps = map_options({name: theirs for each in files for name, theirs in each.maps.items()})
    named = " ".join(map(quote, given))
    is_mapped = bool(support.with_map) or any("id" in each.maps for each in files)
    if is_mapped:
        yield " ".join(("calipers doctor", named, *maps))
    if not (support.metrics or support.with_map) and "winner" not in present:
        yield "calipers metrics"
        return
    asked = " ".join((named, *maps)) if is_mapped else named
    asked += " --on-bad skip" if any(each.bad_rows for each in files) else ""
    if any({*sides, "winner"} <= set(present) for sides in (("a", "b"), ("model_a", "model_b"))):
        yield f"calipers judge audit {named}"
        yield f"calipers rank {named}"
        return
    field = _find_telling_field(support, present)
    by = "" if field is None else f" --by {field}"
    if len(given) == _SEVERAL and field is None and support.pairs:
        yield f"calipers compare {asked}"
    else:
        yield f"calipers score {asked}{by}"
        if field == "tier" and any(each.split(" · ")[-1] == "T0" for each in support.systems):
            yield f"calipers score {asked} --by tier --profile tiers"
        if field is not None and support.common_tasks:
            if len(support.systems) > _SEVERAL:
                yield f"calipers rank {asked}{by}"
            else:
                yield f"calipers compare {asked} --between {field}"
    if "judgments" in present:
        yield f"calipers judge audit {named}"
    found = support.detectable
    if found is not None and (found.value is None or found.value > _SMALL) and len(given) == 1:
        yield f"calipers power {asked} --delta {_SMALL:g}{by}"


def _find_telling_field(support: Support, present: Collection[str]) -> str | None:
    """Return the field by which systems differ, the model before the tier."""
    if len(support.systems) < _SEVERAL:
        return None
    parts = [each.split(" · ") for each in support.systems]
    for place, name in enumerate(name for name in ("model", "tier") if name in present):
        if len({tuple(each[place : place + 1]) for each in parts}) > 1:
            return name
    return None
