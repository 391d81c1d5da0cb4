"""Greedy matching: each token of a text with the token of the other that is most like it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from calipers.metrics.text.semantic.batching import batch_by_size
from calipers.metrics.text.semantic.model import force_precision

_NUMBERS_AT_ONCE = {"cpu": 4 << 20, "cuda": 256 << 20}

Vectors = tuple[torch.Tensor, torch.Tensor]


def match_tokens(pairs: Sequence[Vectors]) -> list[tuple[float, float]]:
    """Return precision and recall of each pair of texts, from the vectors of their tokens.

    A token that is like none (no cosine above 0) counts 0, so that both are in [0, 1]. Padding
    with zeros therefore changes nothing.
    """
    if not pairs:
        return []
    width, device = pairs[0][0].shape[1], pairs[0][0].device
    budget = _NUMBERS_AT_ONCE.get(device.type, _NUMBERS_AT_ONCE["cpu"])
    order: list[int] = []
    found: list[torch.Tensor] = []
    with torch.inference_mode(), force_precision(device):
        for batch in batch_by_size(
            range(len(pairs)),
            shape=lambda at: (len(pairs[at][0]), len(pairs[at][1])),
            room=lambda first, second: first * second + (first + second) * width,
            budget=budget,
            most_padding=budget,
        ):
            order += batch
            found.append(_match_batch([pairs[at] for at in batch]))
        scores = torch.cat(found).tolist()
    ranked = sorted(zip(order, scores, strict=True))
    return [(precision, recall) for _, (precision, recall) in ranked]


def _match_batch(pairs: Sequence[Vectors]) -> torch.Tensor:
    answers, references = (
        pad_sequence(side, batch_first=True) for side in zip(*pairs, strict=True)
    )
    cosines = (answers @ references.mT).clamp_(0, 1)
    sides = [
        cosines.amax(dim).sum(1) / torch.tensor([len(each) for each in side], device=cosines.device)
        for dim, side in zip((2, 1), zip(*pairs, strict=True), strict=True)
    ]
    return torch.stack(sides, dim=1).clamp_(0, 1)
