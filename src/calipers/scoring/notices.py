"""What a user should know about the data behind a score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calipers.engines.outcome import Outcome
from calipers.engines.totals import RECORDS, REPEATED
from calipers.metrics.agent_composite import composite_notices
from calipers.metrics.coordination import message_notices
from calipers.metrics.cost import price_notices
from calipers.metrics.judged import judged_notices
from calipers.metrics.similarity import similarity_notices
from calipers.metrics.token_efficiency import quality_notice
from calipers.metrics.tool_use import tool_notices
from calipers.scoring.options import Options
from calipers.sources import Source
from calipers.sources.logs import log_notices


def notices(sources: Sequence[Source], outcome: Outcome, options: Options) -> Iterator[str]:
    """Each a sentence; those of metrics come from where these are declared."""
    yield from log_notices(sources)
    records = outcome.total(RECORDS)
    if records and "id" not in outcome.present:
        yield "no record has an id: rows are numbered, each a task of its own"
    if repeated := outcome.total(REPEATED):
        yield (
            f"{repeated} records repeat the id, model, tier and run of another; "
            "they count as further runs"
        )
    if skipped := sum(reading.skipped for reading in outcome.readings):
        yield f"{skipped} bad rows were left out"
    yield from price_notices(outcome.groups.values(), options.settings)
    if "token_efficiency" in options.metrics or options.profile:
        yield from quality_notice(outcome.groups.values())
    yield from tool_notices(outcome.groups.values(), options.settings)
    yield from message_notices(outcome.groups.values())
    yield from judged_notices(outcome.groups.values())
    yield from composite_notices(outcome.groups.values(), options.settings)
    yield from similarity_notices(outcome.groups.values(), options.settings)
