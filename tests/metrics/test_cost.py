"""Costs: recorded, by the user's file, by the list, or null with the name of the model."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import calipers as cal
from calipers.metrics.token_prices import open_price_list
from calipers.scores.result import Measured
from tests import commands
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.examples import examples
from tests.files import write_lines

# T's table, USD per million tokens.
TABLE = """
Claude Opus 4.5: {input: 15.00, output: 75.00}
Claude Sonnet 4: {input: 3.00, output: 15.00}
GPT-4o: {input: 5.00, output: 15.00}
"""

Record = dict[str, Any]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(TABLE, encoding="utf-8")
    return path


@pytest.fixture
def no_list(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    open_price_list.cache_clear()
    yield
    open_price_list.cache_clear()


def run(model: str | None, prompt: float | None, completion: float | None, **more: Any) -> Record:
    return {"model": model, "prompt_tokens": prompt, "completion_tokens": completion, **more}


def cost(score: cal.Score, group: int = 0) -> Measured:
    return score.groups[group].metrics["cost_usd"]


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_the_prices_of_t_give_the_numbers_of_t(engine: str, table: Path) -> None:
    rows = [
        run("Claude Opus 4.5", 1_000_000, 1_000_000),
        run("Claude Sonnet 4", 20_000, 4_000),
        run("GPT-4o", 20_000, 4_000),
        run("GPT-4o", 20_000, 4_000, cost_usd=0.5),
    ]
    score = cal.score(rows, by="model", metrics=["cost_usd"], prices=table, engine=engine)
    assert [cost(score, group).value for group in range(3)] == pytest.approx([90, 0.12, 0.33])
    assert [cost(score, group).extras["priced_by_file"] for group in range(3)] == [1, 1, 1]
    assert score.settings["prices"] == str(table)
    assert f"cost of 3 records by the prices in {table}" in score.notices


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_rows_of_every_sort_side_by_side(engine: str, table: Path) -> None:
    pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
    rows = [
        run("GPT-4o", 1_000_000, 0, passed=True, tier="T0"),
        run("gpt-4-turbo", 1_000_000, 0, passed=True, tier="T0"),
        run("gpt-4o", 1_000_000, 0, cost_usd=1.0, passed=False, tier="T0"),
        run("b-model", 1, 1, passed=True, tier="T0"),
        run("GPT-4o", 1, None, passed=True, tier="T0"),
        run("GPT-4o", 1, 1, passed=True, tier="T0", error="timeout: no answer"),
        run("b-model", 1, 1, passed=True, tier="T1"),
        run("a-model", 1, 1, passed=True, tier="T1"),
        run("c-model", 1, 1, passed=True, tier="T1"),
        run("no-tokens", None, 1, passed=True, tier="T2"),
    ]
    score = cal.score(rows, by="tier", profile="tiers", prices=table, engine=engine)
    known, unpriced, no_tokens = (group.metrics for group in score.groups)
    assert known["cost_usd"].value == pytest.approx((5 + 10 + 1) / 3)
    assert (known["cost_usd"].n, known["cost_usd"].missing) == (3, 2)
    assert known["cost_usd"].extras == {"priced_by_file": 1, "priced_by_list": 1}
    assert known["cost_of_pass"].value == pytest.approx(16 / 2)
    assert score.groups[0].statistics is not None
    assert score.groups[0].statistics["cost_usd"] is not None
    assert score.groups[0].statistics["cost_usd"]["median"] == pytest.approx(5)
    reason = "no price is known for a-model and 2 other models: give one with --prices"
    for name in ("cost_usd", "cost_of_pass"):
        assert unpriced[name].value is None
        assert unpriced[name].reason == reason
        no_reason_to_price = no_tokens[name].reason
        assert no_reason_to_price is not None
        assert "--prices" not in no_reason_to_price
    assert (unpriced["cost_usd"].n, unpriced["cost_usd"].missing) == (0, 3)
    notices = [notice for notice in score.notices if "cost" in notice]
    assert notices == [
        f"cost of 1 record by the prices in {table}",
        f"cost of 1 record by the price list {open_price_list()}",
        "1 record without a cost: no price is known for b-model: give one with --prices",
    ]


_tokens = st.one_of(st.none(), st.integers(0, 10), st.integers(0, 10**7), st.floats(0, 1e6))
_runs = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from([None, "Claude Opus 4.5", "GPT-4o", "x-1", "x-2"]),
        "prompt_tokens": _tokens,
        "completion_tokens": _tokens,
        "cache_read_tokens": _tokens,
        "cache_write_tokens": _tokens,
        "cost_usd": st.sampled_from([None, None, None, 0, 0.5]),
        "error": st.sampled_from([None, None, None, "server: 500"]),
    },
)
_PRICES: dict[str, dict[str, float]] = {
    "Claude Opus 4.5": {"input": 15, "output": 75},
    "GPT-4o": {"input": 5, "output": 15, "cache_read": 2.5, "cache_write": 6},
    "x-2": {"input": 0, "output": 0, "cache_read": 1},
}


def reference(record: Record) -> float | None:
    """DEFINITIONS, T, `cost_usd`, in plain Python."""
    if record.get("cost_usd") is not None:
        return float(record["cost_usd"])
    price = _PRICES.get(record.get("model") or "")
    prompt, completion = record.get("prompt_tokens"), record.get("completion_tokens")
    if price is None or prompt is None or completion is None:
        return None
    total = prompt * price["input"] + completion * price["output"]
    for kind in ("cache_read", "cache_write"):
        total += (record.get(f"{kind}_tokens") or 0) * price.get(kind, 0)
    return float(total / 1_000_000)


@given(groups=st.lists(st.lists(_runs, min_size=1, max_size=8), min_size=1, max_size=4))
@examples(
    60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_costs_are_those_of_plain_python(groups: list[list[Record]], tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps(_PRICES), encoding="utf-8")
    rows = [row | {"case": case} for case, group in enumerate(groups) for row in group]
    score = cal.score(rows, by="case", metrics=["cost_usd"], prices=prices)
    for case, group in enumerate(groups):
        called = [row for row in group if not row.get("error")]
        expected = [found for row in called if (found := reference(row)) is not None]
        measured = cost(score, case)
        assert (measured.n, measured.missing) == (len(expected), len(called) - len(expected))
        if expected:
            mean = math.fsum(expected) / len(expected)
            assert measured.value == pytest.approx(mean, rel=1e-9, abs=1e-12)
        else:
            assert measured.reason
            assert ("x-1" in measured.reason) == any(
                row.get("model") == "x-1"
                and row.get("prompt_tokens") is not None
                and row.get("completion_tokens") is not None
                for row in called
            )


@pytest.mark.usefixtures("no_list")
def test_without_the_list_the_reason_says_how_to_get_it(table: Path) -> None:
    rows = [run("o1-mini", 10, 10), run("o1-mini", 10, 10)]
    assert "cost_usd" not in cal.score(rows, prices=table).groups[0].metrics
    measured = cost(cal.score(rows, prices=table, metrics=["cost_usd"]))
    assert measured.value is None
    assert measured.reason == (
        "no price is known for o1-mini: "
        "pip install 'calipers[prices]' for the list of prices, or give one with --prices"
    )
    assert cost(cal.score([run("GPT-4o", 1e6, 0)], prices=table)).value == 5
    assert cost(cal.score([run("o1-mini", 1e6, 0, cost_usd=0.0)])).value == 0


def test_without_model_or_tokens_nothing_is_said_of_cost() -> None:
    score = cal.score([{"answer": "a", "model": "m", "prompt_tokens": 3}])
    assert "cost_usd" not in score.groups[0].metrics
    named = cal.score([{"answer": "a", "model": "m"}], metrics=["cost_usd"])
    assert cost(named).reason == (
        "no record has cost_usd, or model and prompt_tokens and completion_tokens, or usage"
    )
    assert not [notice for notice in named.notices if "cost" in notice]


def test_prices_of_no_model_in_the_records_are_noticed(table: Path) -> None:
    score = cal.score([run("gpt-4", 1, 1), run("GPT-4o", 1, 1, cost_usd=1)], prices=table)
    assert score.notices[1] == (
        f"no cost by the prices in {table}: "
        "no record without a recorded cost is of a model named there"
    )
    silent = cal.score([{"answer": "a"}], prices=table)
    assert not [notice for notice in silent.notices if "cost" in notice]


def test_a_name_from_the_data_cannot_drive_the_terminal() -> None:
    reason = cost(cal.score([run("\x1b[31m" + "m" * 99, 1, 1)], metrics=["cost_usd"])).reason
    assert reason
    assert reason.isprintable()
    assert len(reason) < 200


def test_samples_hold_the_cost(table: Path, tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    rows = [run("GPT-4o", 1e6, 0, passed=True), run("my-model", 1, 1, passed=True)]
    cal.score(rows, prices=table, per_sample=samples)
    written = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    assert [row["cost_usd"] for row in written] == [5.0, None]
    assert not any(name.startswith("_") for row in written for name in row)


def test_intervals_are_those_of_recorded_costs(table: Path) -> None:
    """Tasks with several runs, the bootstrap and clusters see no difference."""
    rows = [run("GPT-4o", 1e5 * (n % 7), 0, id=str(n // 2), lot=n % 3) for n in range(30)]
    recorded = [{**row, "cost_usd": 0.5 * (n % 7)} for n, row in enumerate(rows)]
    for more in ({}, {"cluster": "lot"}, {"resamples": 200}):
        options: Any = {"metrics": ["cost_usd"], **more}
        by_file, by_record = (cost(cal.score(r, prices=table, **options)) for r in (rows, recorded))
        assert by_file.low is not None
        assert (by_file.value, by_file.low, by_file.high) == pytest.approx(
            (by_record.value, by_record.low, by_record.high)
        )


def test_explain_says_why_there_is_no_cost() -> None:
    group = cal.explain("cost_usd", [run("my-model", 1, 1)]).groups[0]
    assert group.value is None
    assert group.work.startswith("no price is known for my-model: ")


def test_the_command_line_takes_prices(table: Path, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "runs.jsonl", [run("GPT-4o", 1e6, 0), run("GPT-4o", 0, 1e6)])
    arguments = ["score", str(data), "--metric", "cost_usd", "--prices", str(table)]
    result = commands.run(*arguments, "--format", "json")
    assert result.exit_code == 0
    score = json.loads(result.stdout)
    assert score["groups"][0]["metrics"]["cost_usd"]["value"] == 10
    assert score["groups"][0]["metrics"]["cost_usd"]["priced_by_file"] == 2
    assert f"note: cost of 2 records by the prices in {table}" in result.stderr


def test_a_bad_file_stops_before_anything_is_read(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("m: {input: -1, output: 2}", encoding="utf-8")
    with pytest.raises(cal.UsageError, match="m: input is -1, negative"):
        cal.score(tmp_path / "there is no such file.jsonl", prices=prices)


def test_a_cost_of_pass_is_not_sure_because_all_runs_passed() -> None:
    """Twenty passes at one price: as few may pass as Wilson's lower bound says."""
    rows = [{"id": str(n), "passed": True, "cost_usd": 0.02} for n in range(20)]
    group = cal.score(rows, metrics=["cost_of_pass", "pass_rate"]).groups[0]
    found, passed = group.metrics["cost_of_pass"], group.metrics["pass_rate"]
    assert (found.value, found.low) == pytest.approx((0.02, 0.02))
    assert found.interval_reason is None
    assert passed.low is not None
    assert found.high == pytest.approx(0.02 / passed.low)
