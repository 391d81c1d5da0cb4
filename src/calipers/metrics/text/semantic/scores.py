"""Scores of pairs of texts: no text and no pair goes through the model twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from calipers.metrics.text.semantic.cache import Match, Pair, ScoreCache
from calipers.metrics.text.semantic.finding import find_model, hash_model

if TYPE_CHECKING:
    from calipers.metrics.text.semantic.embeddings import Embeddings
    from calipers.metrics.text.semantic.model import Tokens


def score_pairs(
    pairs: Sequence[Pair], *, model: str, device: str | None = None, cache: str | Path | None = None
) -> list[Match]:
    """Return how well each pair of texts matches, by the model of this name.

    Equal texts match fully, also where the model sees no token in them; where it sees none in one
    of two texts, nothing matches. With a `cache`, scores are kept in that folder.
    """
    kept = None if cache is None else _open_cache(Path(cache), model)
    found: dict[Pair, Match] = {} if kept is None else kept.find_known(pairs)
    new = list(dict.fromkeys(pair for pair in pairs if pair not in found))
    for some in _score_blocks(new, _open_embeddings(model, device)) if new else ():
        found |= some
        if kept is not None:
            kept.add(some)
    return [found[pair] for pair in pairs]


@lru_cache(maxsize=1)
def _open_embeddings(model: str, device: str | None) -> Embeddings:
    from calipers.metrics.text.semantic.embeddings import Embeddings  # noqa: PLC0415 (loads PyTorch)
    from calipers.metrics.text.semantic.model import load  # noqa: PLC0415

    return Embeddings(load(model, device))


@lru_cache(maxsize=1)
def _open_cache(folder: Path, model: str) -> ScoreCache:
    return ScoreCache(folder, hash_model(find_model(model)))


def _score_blocks(pairs: Sequence[Pair], embeddings: Embeddings) -> Iterator[dict[Pair, Match]]:
    """Yield the scores of the pairs, block by block."""
    from calipers.metrics.text.semantic.matching import match_tokens  # noqa: PLC0415 (loads PyTorch)

    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    tokens = dict(zip(texts, embeddings.model.read(texts), strict=True))
    plain = {pair: match for pair in pairs if (match := _score_trivial(pair, tokens))}
    if plain:
        yield plain
    others = [pair for pair in pairs if pair not in plain]
    for block in _split_blocks(others, tokens, embeddings.most):
        vectors = embeddings.of({text: tokens[text] for pair in block for text in pair})
        found = match_tokens([(vectors[first], vectors[second]) for first, second in block])
        yield {
            pair: Match(precision, recall, _is_cut(pair, tokens))
            for pair, (precision, recall) in zip(block, found, strict=True)
        }


def _score_trivial(pair: Pair, tokens: Mapping[str, Tokens]) -> Match | None:
    first, second = pair
    sizes = len(tokens[first].content), len(tokens[second].content)
    if first == second or not any(sizes):
        return Match(1.0, 1.0)
    return None if all(sizes) else Match(0.0, 0.0, _is_cut(pair, tokens))


def _is_cut(pair: Pair, tokens: Mapping[str, Tokens]) -> bool:
    return any(tokens[text].cut for text in pair)


def _split_blocks(
    pairs: Iterable[Pair], tokens: Mapping[str, Tokens], most: int
) -> Iterator[list[Pair]]:
    """Yield pairs whose texts have at most so many tokens; those that share a text together."""
    block: list[Pair] = []
    texts: set[str] = set()
    held = 0
    for pair in _group_by_text(pairs):
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


def _group_by_text(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs ordered by the text that they share with most others."""
    pairs = list(pairs)
    count = Counter(text for pair in pairs for text in pair)
    place = {text: at for at, text in enumerate(count)}
    return sorted(pairs, key=lambda pair: place[max(pair, key=count.__getitem__)])
