"""Records drawn by stratum: what people rate in the dashboard tells of all answers, by weights."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner

from calipers.cli import app
from calipers.dashboard.catalog import Entry
from calipers.dashboard.ratings import Unit, choose_stratum, order_units
from calipers.judges.calibrate import calibrate_records
from calipers.scores.calibration import Calibration, read_calibrations
from calipers.statistics.agreement import cohen_kappa, krippendorff_alpha, spearman, weighted_kappa
from calipers.statistics.clusters import Floats
from calipers.statistics.correction import correct_share, correct_with_ratings
from calipers.statistics.estimates import Estimate, Sampling, Strata
from calipers.support.errors import DataError
from tests.files import write_lines
from tests.judges import licences_at_hand as at_hand

Row = dict[str, Any]


class Answers(NamedTuple):
    """Answers as two judges and people see them: verdicts, or scores of 0 to 1."""

    people: Floats
    judge: Floats
    second: Floats


class World(NamedTuple):
    """Answers without end: what people pass, how judges err, and how many are in a folder."""

    passed: float
    sensitivity: float
    specificity: float
    records: int
    rated: int
    scores: bool = False

    def draw(self, rng: np.random.Generator, count: int) -> Answers:
        if self.scores:
            scores = np.round(rng.beta(6, 2, count), 1)
            judges = (np.clip(scores + rng.normal(0.05, s, count), 0, 1) for s in (0.1, 0.2))
            return Answers(scores, *judges)
        people = np.asarray(rng.random(count) < self.passed)
        judges = (
            np.where(
                people, rng.random(count) < self.sensitivity - less, rng.random(count) >= right
            )
            for less, right in ((0, self.specificity), (0.05, self.specificity - 0.05))
        )
        return Answers(*(each.astype(np.float64) for each in (people, *judges)))


def opinion(value: float, *, score: bool) -> Row:
    return {"weighted_score": float(value)} if score else {"passed": bool(value)}


def judgment(name: str, value: float, *, score: bool) -> Row:
    who = {"judge": name, "model": f"openai:{name}", "rubric": "r", "rubric_hash": "h"}
    return {**who, **opinion(value, score=score)}


def ask_people(world: World, answers: Answers, *, weighed: bool = True) -> Calibration:
    """The calibration by the first ratings that the page asks for."""
    judged = [
        [judgment("gpt-4o", a, score=world.scores), judgment("gpt-4o-mini", b, score=world.scores)]
        for a, b in zip(answers.judge, answers.second, strict=True)
    ]
    units = [
        Unit(
            key=str(row),
            entry=Entry(id="r", name="run", records=Path("run/records.jsonl")),
            row=row,
            names={"id": f"answer {row}"},
            judgments=each,
            stratum=choose_stratum(each),
        )
        for row, each in enumerate(judged)
    ]
    sizes = Counter(unit.stratum for unit in units)
    first = order_units(units)[: world.rated]
    ratings = [
        {
            **unit.names,
            "rater": "Anna",
            **opinion(answers.people[unit.row], score=world.scores),
            **({"stratum": unit.stratum, "stratum_size": sizes[unit.stratum]} if weighed else {}),
        }
        for unit in first
    ]
    records = [{**unit.names, "judgments": unit.judgments} for unit in first]
    found = calibrate_records(records, ratings).judges
    return next(each for each in found if each.model == "openai:gpt-4o")


def list_truths(world: World) -> Row:
    people, judge, _ = world.draw(np.random.default_rng(99), 200_000)
    everyone = Sampling(clusters=np.arange(people.size))
    both = np.column_stack((judge, people))
    kappa = (weighted_kappa if world.scores else cohen_kappa)(both, everyone).value
    truths = {"kappa": kappa, "bias": float((judge - people).mean()), "mean": float(people.mean())}
    if world.scores:
        return truths
    right = {"sensitivity": judge[people == 1].mean(), "specificity": 1 - judge[people == 0].mean()}
    return {**truths, **right, "mean of these": truths["mean"]}


def list_estimates(
    world: World, found: Calibration, these: Floats, others: Floats
) -> Iterator[tuple[str, Estimate]]:
    aspect = "score" if world.scores else "passed"
    kappa = found.kappa(aspect)
    assert kappa is not None
    yield "kappa", kappa
    yield "bias", found.aspects[aspect]["bias"]
    if world.scores:
        error = float(others.std(ddof=1)) / others.size**0.5
        moments = found.moments[aspect]
        yield (
            "mean",
            correct_with_ratings(
                float(others.mean()), error, others.size, moments, confidence=0.95, within=(0, 1)
            ),
        )
        return
    for name in ("sensitivity", "specificity"):
        yield name, found.aspects[aspect][name]
    assert found.verdicts is not None
    yield "mean", correct_share(float(others.mean()), others.size, found.verdicts, confidence=0.95)
    yield (
        "mean of these",
        correct_share(
            float(these.mean()),
            these.size,
            found.verdicts,
            confidence=0.95,
            n=these.size,
            overlap=world.rated,
            evenness=found.evenness,
        ),
    )


def cover(world: World, sets: int, *, weighed: bool = True) -> dict[str, float]:
    """How often each 95 % interval holds the truth of all answers."""
    rng, truths = np.random.default_rng(5), list_truths(world)
    held: Counter[str] = Counter()
    told: Counter[str] = Counter()
    for _ in range(sets):
        answers, others = world.draw(rng, world.records), world.draw(rng, 1000)
        found = ask_people(world, answers, weighed=weighed)
        for name, each in list_estimates(world, found, answers.judge, others.judge):
            if each.low is not None and each.high is not None:
                told[name] += 1
                held[name] += each.low <= truths[name] <= each.high
    assert min(told.values()) > 0.9 * sets
    return {name: held[name] / told[name] for name in told}


LENIENT = World(0.8, 0.95, 0.85, records=1000, rated=100)
WORLDS = (
    LENIENT,
    LENIENT._replace(rated=300),
    World(0.9, 0.95, 0.7, records=1000, rated=60),
    World(0.5, 0.9, 0.8, records=400, rated=100),
    World(0.95, 0.97, 0.8, records=2000, rated=200),
    World(0.15, 0.8, 0.95, records=1000, rated=100),
    World(0.8, 0.95, 0.85, records=1000, rated=100, scores=True),
)


def test_intervals_hold_under_the_sampling_of_the_page() -> None:
    covered = cover(LENIENT, 25)
    assert min(covered.values()) > 0.85, covered


@pytest.mark.long
@pytest.mark.parametrize("world", WORLDS)
def test_intervals_hold_under_the_sampling_of_the_page_at_length(world: World) -> None:
    sets, promised = 1000, 0.93
    luck = 2 * (promised * (1 - promised) / sets) ** 0.5  # 60 ratings: .947 of 1,500 other sets
    covered = cover(world, sets)
    assert min(covered.values()) >= promised - luck, covered


@pytest.mark.long
def test_without_weights_they_would_not_hold() -> None:
    naive = cover(LENIENT, 200, weighed=False)
    assert naive["kappa"] < 0.6
    assert naive["sensitivity"] < 0.4


ALPHAS = [partial(krippendorff_alpha, level=level) for level in ("nominal", "ordinal", "interval")]


@pytest.mark.parametrize("measure", [cohen_kappa, weighted_kappa, spearman, *ALPHAS])
def test_a_weight_is_worth_so_many_equal_units(measure: Any) -> None:
    """A unit of weight 3 beside units of weight 1 is three units in one cluster."""
    rng = np.random.default_rng(3)
    first = rng.integers(1, 6, 80)
    ratings = np.column_stack((first, np.clip(first + rng.integers(-1, 3, 80), 1, 5))).astype(float)
    heavy = np.arange(80) < 50
    strata = Strata.of(["a" if each else "b" for each in heavy], {"a": 3 * 50, "b": 30})
    weighed = measure(ratings, Sampling(clusters=np.arange(80), strata=strata))
    often = np.repeat(np.arange(80), np.where(heavy, 3, 1))
    repeated = measure(ratings[often], Sampling(clusters=often))
    slack = 0.01 if measure in ALPHAS else 1e-9  # alpha allows for the number of units
    assert weighed.value == pytest.approx(repeated.value, abs=slack)
    plain = measure(ratings, Sampling(clusters=np.arange(80)))
    assert abs(weighed.value - plain.value) > 1e-3


def hand_made() -> tuple[list[Row], list[Row]]:
    """90 of 100 answers pass a judge; people rate ten of these and all that fail."""
    judged = [
        {"id": f"q{n}", "answer": "a", "judgments": [judgment("gpt-4o", n < 90, score=False)]}
        for n in range(100)
    ]
    passes = {n: n != 0 for n in range(10)} | {n: n < 94 for n in range(90, 100)}
    rated = [
        {
            "id": f"q{n}",
            "rater": "Anna",
            "passed": good,
            "stratum": "passed" if n < 90 else "failed",
            "stratum_size": 90 if n < 90 else 10,
        }
        for n, good in passes.items()
    ]
    return judged, rated


def test_shares_are_those_of_all_answers(tmp_path: Path) -> None:
    judged, rated = hand_made()
    write_lines(tmp_path / "judged.jsonl", judged)
    write_lines(tmp_path / "ratings.jsonl", rated)
    output = tmp_path / "calibration.json"
    files = [str(tmp_path / name) for name in ("judged.jsonl", "ratings.jsonl")]
    told = CliRunner().invoke(app, ["judge", "calibrate", *files, "-o", str(output)])
    assert told.exit_code == 0, told.output
    assert "20 records judged by people too, drawn by stratum and weighted: worth about 12" in (
        told.stdout
    )
    [found] = read_calibrations(output)
    measures = found.aspects["passed"]
    # Of 100 answers people would pass 81 that the judge passes, and 4 that it fails.
    assert measures["sensitivity"].value == pytest.approx(81 / 85)
    assert measures["specificity"].value == pytest.approx(6 / 15)
    assert measures["bias"].value == pytest.approx(0.90 - 0.85)
    chance = 0.9 * 0.85 + 0.1 * 0.15
    assert measures["cohen_kappa"].value == pytest.approx((0.87 - chance) / (1 - chance))
    assert found.effective_n == pytest.approx(100**2 / (10 * 9**2 + 10))
    assert found.verdicts is not None
    assert found.verdicts.both_passed / found.verdicts.passed == pytest.approx(81 / 85)
    assert found.verdicts.passed + found.verdicts.failed == pytest.approx(20)


def test_failures_that_are_rated_more_often_than_they_occur_earn_no_licence(tmp_path: Path) -> None:
    """The judge misses half of the failures: people rate 60 of 950 passes, and all 50 failures."""
    judged = [
        {"id": f"q{n}", "answer": "a", "judgments": [at_hand.judgment(0.9 if n < 950 else 0.1)]}
        for n in range(1000)
    ]
    ratings = [
        {"id": f"q{n}", "passed": n % 20 != 0 if n < 950 else n % 10 == 0}
        | {"stratum": "passed" if n < 950 else "failed", "stratum_size": 950 if n < 950 else 50}
        for n in (*range(60), *range(950, 1000))
    ]
    policy = at_hand.POLICY | at_hand.CALIBRATED
    anew = at_hand.answered_anew(judged)
    at_hand.calibrated(tmp_path, judged, [{k: r[k] for k in ("id", "passed")} for r in ratings])
    assert at_hand.check(tmp_path, anew, policy)["verdict"] == "pass"
    at_hand.calibrated(tmp_path, judged, ratings)
    found = at_hand.check(tmp_path, anew, policy)
    assert found["verdict"] == "fail"
    assert "no licence: openai:m" in found["reason"]
    [evidence] = found["evidence"]
    assert evidence["kappa"] == pytest.approx(0.606, abs=0.001)
    assert evidence["low"] < 0.6


def test_where_all_are_rated_weights_change_nothing() -> None:
    judged, rated = hand_made()
    everyone = [
        {
            **rated[0],
            "id": record["id"],
            "passed": n % 7 != 0,
            "stratum": "passed" if n < 90 else "failed",
            "stratum_size": 90 if n < 90 else 10,
        }
        for n, record in enumerate(judged)
    ]
    bare = [{k: v for k, v in each.items() if "stratum" not in k} for each in everyone]
    [weighed] = calibrate_records(judged, everyone).judges
    [plain] = calibrate_records(judged, bare).judges
    assert weighed == plain
    assert weighed.effective_n is None


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"stratum_size": 0}, "q0: stratum_size is 0"),
        ({"stratum_size": 2.5}, "stratum_size is 2.5"),
        ({"stratum_size": True}, "stratum_size is True"),
        ({"stratum_size": "many"}, "stratum_size is 'many'"),
        ({"stratum_size": float("inf")}, "stratum_size is inf"),
    ],
)
def test_sizes_that_are_none_are_refused(changed: Row, says: str) -> None:
    judged, rated = hand_made()
    with pytest.raises(DataError, match=says):
        calibrate_records(judged, [{**rated[0], **changed}, *rated[1:]])


def test_a_table_may_hold_sizes_as_numbers_with_a_point() -> None:
    judged, rated = hand_made()
    [whole] = calibrate_records(judged, rated).judges
    floats = [{**each, "stratum_size": float(each["stratum_size"])} for each in rated]
    assert calibrate_records(judged, floats).judges == (whole,)


def test_ratings_with_and_without_strata_are_not_mixed() -> None:
    judged, rated = hand_made()
    bare = {k: v for k, v in rated[0].items() if "stratum" not in k}
    with pytest.raises(DataError, match="1 of 20 records that people rated do not say"):
        calibrate_records(judged, [bare, *rated[1:]])
    # A second rater may be somebody with a file of their own.
    [found] = calibrate_records(judged, [*rated, bare]).judges
    assert found.effective_n is not None


def test_a_stratum_that_has_grown_counts_with_its_last_size() -> None:
    judged, rated = hand_made()
    grown = [{**each, "stratum_size": 2 * each["stratum_size"]} for each in rated[-1:]]
    [found] = calibrate_records(judged, [*rated[:-1], *grown]).judges
    assert found.effective_n == pytest.approx((90 + 20) ** 2 / (10 * 9**2 + 10 * 2**2))


def test_a_file_that_claims_more_than_its_records_is_refused(tmp_path: Path) -> None:
    judged, rated = hand_made()
    path = tmp_path / "calibration.json"
    value = json.loads(calibrate_records(judged, rated).to_json())
    for worth in (0, 21, True, "12"):
        value["judges"][0]["effective_n"] = worth
        path.write_text(json.dumps(value))
        with pytest.raises(Exception, match="no calibration"):
            read_calibrations(path)
