"""BERTScore on real weights: equal to torchmetrics pair by pair, whatever else is asked with it."""

from __future__ import annotations

import json
import math
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from calipers.metrics.similarity.bert_score import (
    Match,
    _open_embeddings,
    _split_blocks,
    score_pairs,
)
from tests.metrics.semantic.weights import MODEL, skip_without_model
from tests.shared_data import FOLDER

skip_without_model()

REVIEWS = FOLDER / "reviews" / "peerread_review_pairs.jsonl"
WORDS = (
    "the a of and to we model paper results method baseline unclear well-written Transformer "
    "unbelievably p<0.05 état naïve 東京 données 3.14 !!! ... it's don't https://a.b/c 🙂 x"
).split()
ODD = [
    ("a", "a b"),
    ("?", "!"),
    ("no", "No."),
    ("[SEP] inside", "the text [CLS] has [PAD] marks"),
    ("tab\tand\nnewline", "tab and newline"),
    ("x" * 150, "a word that is no word"),  # one unknown token
    ("\u200b\u0000a", "a"),
    ("Ünïcödé", "unicode"),
]

Pair = tuple[str, str]


def scores(pairs: list[Pair], **options: Any) -> list[Match]:
    return score_pairs(pairs, model=MODEL, device="cpu", **options)


def random_pairs(number: int, longest: int, seed: int = 0) -> list[Pair]:
    draw = random.Random(seed)

    def text() -> str:
        return " ".join(draw.choices(WORDS, k=round(longest ** draw.random())))

    return [(text(), text()) for _ in range(number)]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Several threads only wait for each other where other tests run too."""
    import torch  # noqa: PLC0415

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# --- the same numbers as torchmetrics ---


@pytest.fixture(scope="module")
def peer() -> Callable[[Pair], tuple[float, ...]]:
    """torchmetrics, a pair at a time: it mixes the pairs up that are given together (#2728)."""
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers  # noqa: PLC0415
        from torchmetrics.functional.text.bert import bert_score  # noqa: PLC0415

        from calipers.metrics.similarity.bert_score import find_model  # noqa: PLC0415

        folder = find_model(MODEL)
        network = transformers.AutoModel.from_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def score(pair: Pair) -> tuple[float, ...]:
        found = bert_score(
            [pair[0]], [pair[1]], model=network, user_tokenizer=tokenizer, truncation=True
        )
        return tuple(float(found[name]) for name in ("precision", "recall", "f1"))

    return score


def assert_same(pairs: list[Pair], peer: Callable[[Pair], tuple[float, ...]]) -> None:
    for pair, ours in zip(pairs, scores(pairs), strict=True):
        assert (ours.precision, ours.recall, ours.f1) == pytest.approx(peer(pair), abs=1e-5), pair


def test_odd_and_random_pairs_are_as_torchmetrics_has_them(peer: Any) -> None:
    assert_same([*ODD, *random_pairs(50, longest=60)], peer)


def test_texts_that_are_too_long_are_as_torchmetrics_cuts_them(peer: Any) -> None:
    long = "a model of the paper " * 200
    pairs = [(long, "the model"), ("the model", long + "x"), (long, "well " + long)]
    assert_same(pairs, peer)
    assert [match.cut for match in scores(pairs)] == [True, True, True]


@pytest.mark.skipif(not REVIEWS.exists(), reason="there is no ../shared/data beside the checkout")
def test_reviews_are_as_torchmetrics_has_them(peer: Any) -> None:
    with REVIEWS.open(encoding="utf-8", newline="\n") as lines:
        rows = [json.loads(line) for line, _ in zip(lines, range(400), strict=False)][::40]
    pairs = [(row["text1"][:1200], row["text2"][:900]) for row in rows]
    assert_same(pairs, peer)


# --- what must hold of any score ---


def test_scores_do_not_depend_on_what_else_is_asked_nor_in_which_order() -> None:
    pairs = random_pairs(24, longest=40, seed=1)
    together = [match.f1 for match in scores(pairs)]
    backwards = [match.f1 for match in scores(pairs[::-1])][::-1]
    _open_embeddings.cache_clear()
    alone = [scores([pair])[0].f1 for pair in pairs]
    assert together == pytest.approx(alone, abs=1e-6)
    assert together == pytest.approx(backwards, abs=1e-6)


def test_f1_is_symmetric_and_precision_is_the_others_recall() -> None:
    pairs = random_pairs(12, longest=30, seed=2)
    turned = scores([(b, a) for a, b in pairs])
    for there, back in zip(scores(pairs), turned, strict=True):
        assert there.precision == pytest.approx(back.recall, abs=1e-6)
        assert there.f1 == pytest.approx(back.f1, abs=1e-6)


def test_scores_lie_between_0_and_1() -> None:
    for match in scores([*ODD, *random_pairs(20, longest=20, seed=3)]):
        assert 0 <= match.precision <= 1
        assert 0 <= match.recall <= 1
        assert 0 <= match.f1 <= 1


@pytest.mark.parametrize("text", ["", " ", "a red wine", "long " * 3000])
def test_equal_texts_match_fully(text: str) -> None:
    assert scores([(text, text)])[0].f1 == 1


@pytest.mark.parametrize("empty", ["", " ", "\n\t ", "\u200b"])
def test_a_text_without_tokens(empty: str) -> None:
    assert [match.f1 for match in scores([(empty, ""), (empty, "wine"), ("wine", empty)])] == [
        1,
        0,
        0,
    ]


def test_close_meanings_score_higher_than_distant_ones() -> None:
    close, distant = scores(
        [
            ("The movie was great", "The film was excellent"),
            ("The movie was great", "Interest rates rose in March"),
        ]
    )
    assert close.f1 > 0.7
    assert distant.f1 < 0.3


def test_no_pairs() -> None:
    assert scores([]) == []


# --- nothing is computed twice, and memory is bounded ---


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens went through the network, batch by batch, padding included."""
    _open_embeddings.cache_clear()
    model = _open_embeddings(MODEL, "cpu").model
    network = model.network
    sizes: list[int] = []

    class Counted:
        config = network.config

        def __call__(self, input_ids: Any, attention_mask: Any) -> Any:
            sizes.append(input_ids.shape[0] * input_ids.shape[1])
            return network(input_ids=input_ids, attention_mask=attention_mask)

    monkeypatch.setitem(vars(model), "network", Counted())
    return sizes


def test_a_text_is_embedded_once_within_and_across_calls(read: list[int]) -> None:
    reference = "the reference of all"
    pairs = [(f"answer {letter}", reference) for letter in "abcdefgh"]
    first = scores(pairs * 3)
    tokens = sum(read)
    assert tokens <= 9 * 8  # nine texts of at most eight tokens
    assert first[:8] == first[8:16] == first[16:]
    scores([("answer a", "answer b"), ("answer c", reference)])
    assert sum(read) == tokens


def test_batches_are_bounded_by_tokens_not_by_texts(read: list[int]) -> None:
    scores([(f"{n} " + "wine " * 400, f"{n} beer") for n in range(24)])
    assert max(read) <= 8192
    assert len(read) == 3  # the short ones go together, and not with long ones


def test_few_short_texts_are_not_padded_to_long_ones(read: list[int]) -> None:
    scores([("red " + "wine " * 400, "beer"), ("white " + "wine " * 400, "ale")])
    assert len(read) == 2
    assert min(read) < 10


def test_vectors_are_dropped_when_room_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = random_pairs(30, longest=60, seed=4)
    _open_embeddings.cache_clear()
    expected = [match.f1 for match in scores(pairs)]
    monkeypatch.setattr("calipers.metrics.similarity.embeddings._ROOM", {"cpu": 300 * 4 * 384})
    _open_embeddings.cache_clear()
    assert [match.f1 for match in scores(pairs)] == pytest.approx(expected, abs=1e-6)
    kept = _open_embeddings(MODEL, "cpu")
    assert kept._tokens == sum(map(len, kept._kept.values())) <= 300
    _open_embeddings.cache_clear()


def test_pairs_that_share_a_text_are_in_one_block() -> None:
    texts = [f"reference {n}" for n in range(4)]
    pairs = [(f"answer {run} to {text}", text) for run in range(3) for text in texts]
    everything = {text for pair in pairs for text in pair}
    model = _open_embeddings(MODEL, "cpu").model
    tokens = dict(zip(everything, model.read(list(everything)), strict=True))
    of_group = sum(len(tokens[text].ids) for text in {t for p in pairs[::4] for t in p})
    blocks = list(_split_blocks(pairs, tokens, most=of_group))
    assert sorted(pair for block in blocks for pair in block) == sorted(pairs)
    assert [{reference for _, reference in block} for block in blocks] == [{t} for t in texts]


def test_what_is_no_number_is_not_made_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch  # noqa: PLC0415

    _open_embeddings.cache_clear()
    model = _open_embeddings(MODEL, "cpu").model
    nothing = torch.full((3, 384), float("nan"))
    monkeypatch.setattr(type(model), "embed", lambda _, batch: [nothing for _ in batch])
    assert math.isnan(scores([("a", "b")])[0].f1)
    _open_embeddings.cache_clear()
