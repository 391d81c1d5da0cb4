"""Scores of pairs of texts: no text and no pair goes through the model twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from calipers.metrics.text.semantic.cache import ScoreCache
from calipers.metrics.text.semantic.finding import model_digest, model_folder
from calipers.metrics.text.semantic.match import Match, Pair

if TYPE_CHECKING:
    from calipers.metrics.text.semantic.embeddings import Embeddings
    from calipers.metrics.text.semantic.model import Tokens


def bert_scores(
    pairs: Sequence[Pair],
    *,
    model: str,
    device: str | None = None,
    cache: str | Path | None = None,
) -> list[Match]:
    """How well each pair of texts matches, by the model so named.

    Equal texts match fully, also where the model sees no token in them; where it sees none in one
    of two texts, nothing matches. With a `cache`, scores are kept in that folder.
    """
    kept = None if cache is None else _cache(Path(cache), model)
    found: dict[Pair, Match] = {} if kept is None else kept.known(pairs)
    new = list(dict.fromkeys(pair for pair in pairs if pair not in found))
    for some in _scored(new, _embeddings(model, device)) if new else ():
        found |= some
        if kept is not None:
            kept.add(some)
    return [found[pair] for pair in pairs]


@lru_cache(maxsize=1)
def _embeddings(model: str, device: str | None) -> Embeddings:
    from calipers.metrics.text.semantic.embeddings import Embeddings  # noqa: PLC0415 (loads PyTorch)
    from calipers.metrics.text.semantic.model import load  # noqa: PLC0415

    return Embeddings(load(model, device))


@lru_cache(maxsize=1)
def _cache(folder: Path, model: str) -> ScoreCache:
    return ScoreCache(folder, model_digest(model_folder(model)))


def _scored(pairs: Sequence[Pair], embeddings: Embeddings) -> Iterator[dict[Pair, Match]]:
    """The pairs' scores, block by block."""
    from calipers.metrics.text.semantic.matching import matched  # noqa: PLC0415 (loads PyTorch)

    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    tokens = dict(zip(texts, embeddings.model.read(texts), strict=True))
    plain = {pair: match for pair in pairs if (match := _without_model(pair, tokens))}
    if plain:
        yield plain
    others = [pair for pair in pairs if pair not in plain]
    for block in _blocks(others, tokens, embeddings.most):
        vectors = embeddings.of({text: tokens[text] for pair in block for text in pair})
        found = matched([(vectors[first], vectors[second]) for first, second in block])
        yield {
            pair: Match(precision, recall, _is_cut(pair, tokens))
            for pair, (precision, recall) in zip(block, found, strict=True)
        }


def _without_model(pair: Pair, tokens: Mapping[str, Tokens]) -> Match | None:
    first, second = pair
    sizes = len(tokens[first].content), len(tokens[second].content)
    if first == second or not any(sizes):
        return Match(1.0, 1.0)
    return None if all(sizes) else Match(0.0, 0.0, _is_cut(pair, tokens))


def _is_cut(pair: Pair, tokens: Mapping[str, Tokens]) -> bool:
    return any(tokens[text].cut for text in pair)


def _blocks(pairs: Iterable[Pair], tokens: Mapping[str, Tokens], most: int) -> Iterator[list[Pair]]:
    """Pairs whose texts have at most so many tokens; those that share a text come together."""
    block: list[Pair] = []
    texts: set[str] = set()
    held = 0
    for pair in _grouped(pairs):
        new = set(pair) - texts
        more = sum(len(tokens[text].ids) for text in new)
        if block and held + more > most:
            yield block
            block, texts, held = [], set(), 0
            new, more = set(pair), sum(len(tokens[text].ids) for text in set(pair))
        block.append(pair)
        texts |= new
        held += more
    if block:
        yield block


def _grouped(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs in the order in which the text that they share with most others came first."""
    pairs = list(pairs)
    count = Counter(text for pair in pairs for text in pair)
    place = {text: at for at, text in enumerate(count)}
    return sorted(pairs, key=lambda pair: place[max(pair, key=count.__getitem__)])
