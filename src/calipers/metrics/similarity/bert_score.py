"""BERTScore: how well the tokens of one text match those of the other (Zhang et al., 2020).

Tokens are vectors of a language model's last layer. Precision is the mean, over the answer's
tokens, of the highest cosine with a token of the reference; recall is the same the other way round.
Special tokens do not take part; there is no idf and no rescaling with a baseline.

The model is a folder, an installed package that carries it, or a name on the hub. Weights are read
from safetensors files alone, which hold numbers and never code. PyTorch and Transformers (the extra
`semantic`) are imported in `embeddings.py`, when a model is needed: never where all scores are in
the cache.

The cache is a folder per model, named by the content of its files. It holds files of scores, each
named by its own content: a damaged one no longer fits its name, is dropped, and its scores are
computed again. Texts are not kept, only their hashes.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b, file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.lib.format import read_array

from calipers.support.errors import UsageError
from calipers.support.files import DiskCache

if TYPE_CHECKING:
    from calipers.metrics.similarity.embeddings import Embeddings, Tokens

T = TypeVar("T")
Shape = tuple[int, int]


def batch_by_size(
    items: Iterable[T],
    shape: Callable[[T], Shape],
    room: Callable[[int, int], int],
    budget: int,
    most_padding: int,
) -> Iterator[list[T]]:
    """Yield batches of like shape, padded to the widest, whose `room` times items is bounded.

    So is the part of it that is padding. What alone is over the budget makes a batch of its own.

    >>> list(batch_by_size([5, 1, 4, 2], lambda n: (n, 1), lambda n, m: n * m, 8, most_padding=3))
    [[1, 2], [4], [5]]
    """
    batch: list[T] = []
    widest, filled = (0, 0), 0
    for item in sorted(items, key=shape):
        height, width = shape(item)
        grown = max(widest[0], height), max(widest[1], width)
        needed = (len(batch) + 1) * room(*grown)
        padding = needed - filled - room(height, width)
        if batch and (needed > budget or padding > most_padding):
            yield batch
            batch, grown, filled = [], (height, width), 0
        batch.append(item)
        widest = grown
        filled += room(height, width)
    if batch:
        yield batch


CONFIG, WEIGHTS = "config.json", "*.safetensors"

_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_PATIENCE = 5.0  # seconds until a hub counts as out of reach
_WAYS = "give its folder, or an installed package that carries it"


def find_model(name: str) -> Path:
    """Return the folder with the configuration, the tokenizer and the weights of a model."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not _has_model(folder):
            raise UsageError(
                f"the folder {name} holds no model", fix=f"it needs {CONFIG} and {WEIGHTS}"
            )
        return folder.resolve()
    return _search_package(name) or _from_hub(name)


def hash_model(folder: Path) -> str:
    """Return the hash of a model's files, on which its numbers depend."""
    digest = sha256()
    for path in sorted({path for pattern in _FILES for path in folder.glob(pattern)}):
        with path.open("rb") as file:
            digest.update(f"{path.name}\0".encode())
            digest.update(file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _has_model(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and any(folder.glob(WEIGHTS))


def _search_package(name: str) -> Path | None:
    """Return the shallowest folder of a package that holds a model; nothing is imported."""
    module = name.replace("-", "_")
    spec = find_spec(module) if module.isidentifier() else None
    roots = (spec and spec.submodule_search_locations) or ()
    found = (path.parent for root in roots for path in Path(root).rglob(CONFIG))
    models = [folder for folder in found if _has_model(folder)]
    return min(models, key=lambda folder: (len(folder.parts), folder), default=None)


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415 (only where it is needed)

    with suppress(OSError, ValueError):  # not there yet, or only a part of it
        folder = Path(snapshot_download(name, local_files_only=True, allow_patterns=_FILES))
        if _has_model(folder):
            return folder
    folder = Path(_download(name))
    if not _has_model(folder):
        raise UsageError(f"the model {name} has no {WEIGHTS} on the hub", fix="name another")
    return folder


def _download(name: str) -> str:
    """Return a fresh copy of the model's files, in the hub's own cache."""
    from huggingface_hub import HfApi, errors, snapshot_download  # noqa: PLC0415

    try:
        # Asked first, since this call can be told how long to wait.
        revision = HfApi().model_info(name, timeout=_PATIENCE).sha
        return str(
            snapshot_download(
                name, revision=revision, allow_patterns=_FILES, ignore_patterns=["*/*"]
            )
        )
    except Exception as error:  # its HTTP library has errors of its own
        why = f"the model {name} is not on this machine, and the hub cannot be reached"
        if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
            why = f"no folder, no installed package and no model of the hub is called {name}"
        elif isinstance(error, errors.OfflineModeIsEnabled):
            why = f"the model {name} is not on this machine, and HF_HUB_OFFLINE is set"
        raise UsageError(why, fix=_WAYS) from error


VERSION = 1  # of the computation: another version has another folder

_KEY_BYTES, _NAME_BYTES = 16, 16
_ROW = np.dtype([("key", f"V{_KEY_BYTES}"), ("precision", "<f4"), ("recall", "<f4"), ("cut", "?")])
_MOST_FILES = 32


Pair = tuple[str, str]  # answer and reference


class Match(NamedTuple):
    """How far each side of a pair is found in the other."""

    precision: float
    recall: float
    cut: bool = False  # whether only the beginning of a text took part

    @property
    def f1(self) -> float:
        """The harmonic mean; 0 where nothing was found.

        >>> Match(0.5, 1.0).f1
        0.6666666666666666
        """
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


class ScoreCache:
    """The scores by one model."""

    def __init__(self, folder: Path, model: str) -> None:
        place = folder / f"v{VERSION}-{model[:32]}"
        self._cache = DiskCache(place, suffix=".npy", spread=False)
        self._scores: dict[bytes, Match] = {}
        self._files: list[str] = []
        for name, content in self._cache.read_entries():
            self._read(name, content)

    @property
    def folder(self) -> Path:
        """Where the scores are kept."""
        return self._cache.folder

    def find_known(self, pairs: Iterable[Pair]) -> dict[Pair, Match]:
        """Return the scores that are in the cache."""
        asked = {pair: _hash_pair(pair) for pair in pairs}
        return {pair: self._scores[key] for pair, key in asked.items() if key in self._scores}

    def add(self, scores: Mapping[Pair, Match]) -> None:
        """Store further scores; on a full disk they are just not cached."""
        new = {_hash_pair(pair): match for pair, match in scores.items()}
        self._scores |= new
        self._write(new)
        if len(self._files) > _MOST_FILES:
            self._merge()

    def _read(self, name: str, content: bytes) -> None:
        try:
            rows = _read_rows(content, name)
        except ValueError:
            self._cache.drop(name)
            return
        self._scores |= {key: Match(*match) for key, *match in rows.tolist()}
        self._files.append(name)

    def _write(self, scores: Mapping[bytes, Match]) -> None:
        rows = np.array([(key, *match) for key, match in scores.items()], dtype=_ROW)
        buffer = io.BytesIO()
        np.save(buffer, rows, allow_pickle=False)
        name = _name_file(buffer.getvalue())
        self._cache.keep(name, buffer.getvalue())
        self._files.append(name)

    def _merge(self) -> None:
        """Merge many files into one."""
        old, self._files = self._files, []
        self._write(self._scores)
        for name in set(old) - set(self._files):
            self._cache.drop(name)


def _read_rows(content: bytes, name: str) -> np.ndarray[Any, Any]:
    if name != _name_file(content):
        raise ValueError("damaged")
    rows = read_array(io.BytesIO(content), allow_pickle=False)
    if rows.dtype != _ROW:
        raise ValueError("not ours")
    return np.atleast_1d(rows)


def _hash_pair(pair: Pair) -> bytes:
    """Return the key of a pair; with a length, so that ("ab", "c") differs from ("a", "bc")."""
    first, second = (text.encode("utf-8", "surrogatepass") for text in pair)
    digest = blake2b(len(first).to_bytes(8, "little"), digest_size=_KEY_BYTES)
    digest.update(first)
    digest.update(second)
    return digest.digest()


def _name_file(content: bytes) -> str:
    return blake2b(content, digest_size=_NAME_BYTES).hexdigest()


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
    from calipers.metrics.similarity.embeddings import Embeddings, load  # noqa: PLC0415

    return Embeddings(load(model, device))


@lru_cache(maxsize=1)
def _open_cache(folder: Path, model: str) -> ScoreCache:
    return ScoreCache(folder, hash_model(find_model(model)))


def _score_blocks(pairs: Sequence[Pair], embeddings: Embeddings) -> Iterator[dict[Pair, Match]]:
    """Yield the scores of the pairs, block by block."""
    from calipers.metrics.similarity.embeddings import match_tokens  # noqa: PLC0415 (loads PyTorch)

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
