"""The language model behind BERTScore: tokens, their vectors, and greedy matching; loads PyTorch.

Each text goes through the model once, as long as there is room to keep its vectors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence

from calipers.metrics.similarity.bert_score import batch_by_size, find_model
from calipers.support.errors import UsageError

_UNLIMITED = 100_000  # tokenizers without a limit give a huge number
_LIMIT_OTHERWISE = 512
_CHARACTERS_AT_ONCE = 1 << 20
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as the model reads it."""

    ids: NDArray[np.int64]
    content: NDArray[np.int64]  # where in it the tokens are that are not special
    cut: bool  # whether the text is longer than the model can read


@dataclass(frozen=True)
class Model:
    """A network that is ready to run, and its tokenizer."""

    network: Any
    tokenizer: Any  # of the library tokenizers, set to cut what is too long
    device: torch.device
    padding: int

    @property
    def width(self) -> int:
        """Numbers in a token's vector."""
        return int(self.network.config.hidden_size)

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text."""
        return [
            Tokens(
                ids=np.array(encoding.ids, dtype=np.int64),
                content=np.flatnonzero(np.array(encoding.special_tokens_mask) == 0),
                cut=bool(encoding.overflowing),
            )
            for some in _batch_texts(texts)
            for encoding in self.tokenizer.encode_batch(some)
        ]

    def embed(self, batch: Sequence[Tokens]) -> list[torch.Tensor]:
        """Return, for each text, the vectors of its tokens without the special ones."""
        longest = max(len(text.ids) for text in batch)
        ids = np.full((len(batch), longest), self.padding)
        mask = np.zeros_like(ids)
        for row, each in enumerate(batch):
            ids[row, : len(each.ids)] = each.ids
            mask[row, : len(each.ids)] = 1
        kept = np.concatenate([each.content + row * longest for row, each in enumerate(batch)])
        with torch.inference_mode(), force_precision(self.device):
            output = self.network(
                input_ids=torch.from_numpy(ids).to(self.device),
                attention_mask=torch.from_numpy(mask).to(self.device),
            )
            flat = output.last_hidden_state.flatten(0, 1)
            flat = flat[torch.from_numpy(kept).to(self.device)]
            flat = torch.nn.functional.normalize(flat, dim=-1)
            return [part.clone() for part in flat.split([len(text.content) for text in batch])]


def load(name: str, device: str | None = None) -> Model:
    """Return the model of this name, on the GPU if there is one, unless a device is named."""
    folder = find_model(name)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    try:
        with _suppress_remarks():
            model = _load_folder(folder, place)
        model.embed(model.read(["ready?"]))
    except Exception as error:  # files from outside: they can be wrong in many ways
        what = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise UsageError(
            f"the model {name} cannot be used: {what[:_LONGEST_REASON]}", fix="name another"
        ) from error
    return model


def _load_folder(folder: Path, device: torch.device) -> Model:
    options = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=True, **options)
    network = transformers.AutoModel.from_pretrained(folder, use_safetensors=True, **options)
    if network.config.is_encoder_decoder:
        network = network.get_encoder()
    reader = tokenizer.backend_tokenizer
    reader.no_padding()
    reader.enable_truncation(_limit(tokenizer, network))
    return Model(
        network=network.float().eval().to(device),
        tokenizer=reader,
        device=device,
        padding=tokenizer.pad_token_id or 0,
    )


def _limit(tokenizer: Any, network: Any) -> int:
    """Return the most tokens, special ones included, that the model reads."""
    known = [tokenizer.model_max_length]
    if positions := getattr(network.config, "max_position_embeddings", None):
        known.append(positions - _count_unused(network))
    return int(min((limit for limit in known if 0 < limit < _UNLIMITED), default=_LIMIT_OTHERWISE))


def _count_unused(network: Any) -> int:
    """Return the number of positions that RoBERTa and its relatives leave unused."""
    for name, part in network.named_modules():
        if name.endswith("position_embeddings"):
            padding = getattr(part, "padding_idx", None)
            return 0 if padding is None else int(padding) + 1
    return 0


def _batch_texts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield texts by the megabyte: tokenizers take a hundred times the size of a text."""
    some: list[str] = []
    characters = 0
    for text in texts:
        some.append(text)
        characters += len(text)
        if characters >= _CHARACTERS_AT_ONCE:
            yield some
            some, characters = [], 0
    if some:
        yield some


@contextmanager
def force_precision(device: torch.device) -> Iterator[None]:
    """Disable reduced precision of a GPU in 32-bit products, inside the block."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def _suppress_remarks() -> Iterator[None]:
    """Suppress progress bars of local files and remarks on unused weights, inside the block."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


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
        cosines.amax(dim).sum(1)
        / torch.tensor([len(tokens) for tokens in side], device=cosines.device)
        for dim, side in zip((2, 1), zip(*pairs, strict=True), strict=True)
    ]
    return torch.stack(sides, dim=1).clamp_(0, 1)
