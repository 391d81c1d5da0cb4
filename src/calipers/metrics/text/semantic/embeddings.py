"""Vectors of texts: each text goes through the model once, as long as there is room to keep it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import torch

from calipers.metrics.text.semantic.batching import batch_by_size
from calipers.metrics.text.semantic.model import Model, Tokens

_NUMBER = 4  # bytes
_ROOM = {"cpu": 256 << 20, "cuda": 2 << 30}
# On a CPU larger batches leave its caches: a core reads 3,760 tokens a second (MiniLM), 8,192 at
# once; 2,770 with 32,768 at once, 3,330 with 512. A GPU is only busy with many.
_TOKENS_AT_ONCE = {"cpu": 8192, "cuda": 65_536}


class Embeddings:
    """The vectors of the texts that were asked for last."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._room = _ROOM.get(model.device.type, _ROOM["cpu"]) // (_NUMBER * model.width)
        self._at_once = _TOKENS_AT_ONCE.get(model.device.type, _TOKENS_AT_ONCE["cpu"])
        self._kept: OrderedDict[str, torch.Tensor] = OrderedDict()
        self._tokens = 0

    @property
    def most(self) -> int:
        """Tokens that may be asked for at once, so that what is kept beside them stays bounded."""
        return self._room // 2

    def of(self, texts: Mapping[str, Tokens]) -> dict[str, torch.Tensor]:
        """Return the vectors of the texts."""
        new = [text for text in texts if text not in self._kept]
        for text in texts:
            if text in self._kept:
                self._kept.move_to_end(text)
        for batch in batch_by_size(
            new,
            shape=lambda text: (len(texts[text].ids), 1),
            room=lambda length, _: length,
            budget=self._at_once,
            most_padding=self._at_once // 16,
        ):
            vectors = self.model.embed([texts[text] for text in batch])
            for text, vector in zip(batch, vectors, strict=True):
                self._kept[text] = vector
                self._tokens += len(vector)
        found = {text: self._kept[text] for text in texts}
        while self._tokens > self._room and len(self._kept) > len(texts):
            _, oldest = self._kept.popitem(last=False)
            self._tokens -= len(oldest)
        return found
