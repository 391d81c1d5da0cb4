"""People rate in the dashboard: the queue, the file, what is refused, and what ratings amount to."""

from __future__ import annotations

import http.client
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner

from calipers.cli import app
from calipers.dashboard.pages.rate_pages import Rating
from calipers.dashboard.ratings import RaterFile, read_scores
from calipers.gates.licences import count_missing_ratings
from calipers.judges.rubrics import Rubric
from calipers.statistics.estimates import Estimate
from calipers.support.errors import UsageError
from tests.dashboard.dashboards import Answer, Dashboard, dashboard
from tests.files import write_lines

MODELS = ("llama3", "llama3:70b")
TOKEN = "t0ken-of-the-test"
WRITTEN: dict[str, Any] = {
    "name": "helpful reply",
    "question": "Is this a good reply?",
    "pass_at": 0.7,
    "categories": [
        {
            "name": "reply",
            "items": [
                {"name": "apology", "points": 1, "says": "It says sorry."},
                {"name": "remedy", "points": 2, "says": "It says what will be done."},
            ],
        }
    ],
}
RUBRIC = Rubric.model_validate(WRITTEN)


def judge(name: str, *, passed: bool) -> dict[str, Any]:
    scores = {"apology": 1, "remedy": 2 if passed else 0}
    return {
        "judge": name,
        "model": f"{name}:model",
        "rubric": RUBRIC.name,
        "rubric_hash": RUBRIC.hash,
        "scores": scores,
        **RUBRIC.grade(scores),
    }


def judged(count: int) -> list[dict[str, Any]]:
    """Replies, one in ten failed by a judge, one in fifteen by one of two."""
    return [
        {
            "id": f"case-{n:03}",
            "model": MODELS[n % 2],
            "input": f"My kettle number {n} is broken.",
            "target": f"secret target {n}",
            "answer": f"Sorry about kettle {n}; a new one is on its way.",
            "judgments": [
                judge("strict", passed=n % 10 != 0),
                judge("kind", passed=n % 10 != 0 or n % 15 == 0),
            ],
        }
        for n in range(count)
    ]


@pytest.fixture
def folder(tmp_path: Path, cache: Path) -> Path:
    del cache
    results = tmp_path / "results"
    results.mkdir()
    write_lines(results / "judged.jsonl", judged(60))
    (results / "rubric.yaml").write_text(json.dumps(WRITTEN))
    return results


@contextmanager
def rating(folder: Path, rater: str | None = None) -> Iterator[Dashboard]:
    with dashboard(
        folder, token=TOKEN, rating=Rating(folder.parent / "ratings.jsonl", rater)
    ) as it:
        yield it


def get(site: Dashboard, path: str) -> str:
    answer = site.get(path, headers={"Cookie": f"calipers_token={TOKEN}"})
    assert answer.status == 200, answer.text
    return answer.text


def post(site: Dashboard, given: Mapping[str, Any], **changed: str | None) -> Answer:
    """Send the form as the page of the browser does, but for headers that are changed."""
    body = urlencode(given).encode()
    headers = {
        "Host": f"127.0.0.1:{site.port}",
        "Origin": site.url,
        "Cookie": f"calipers_token={TOKEN}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Sec-Fetch-Site": "same-origin",
    }
    sent = headers | {name.replace("_", "-"): value for name, value in changed.items()}
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
    path = sent.pop("path", None) or "/rate"
    connection.request("POST", path, body, {k: v for k, v in sent.items() if v is not None})
    found = connection.getresponse()
    answer = Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
    connection.close()
    return answer


def unit_of(page: str) -> str:
    found = re.search(r'name="unit" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]


def rate(site: Dashboard, rater: str, *, remedy: int = 2, **more: Any) -> Answer:
    unit = unit_of(get(site, f"/rate?rater={rater}"))
    scores = {"score.apology": "1", "score.remedy": str(remedy)}
    return post(site, {"rater": rater, "unit": unit, "do": "rate", **scores, **more})


def lines_of(folder: Path) -> list[dict[str, Any]]:
    path = folder.parent / "ratings.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_page_is_blind_and_a_rating_is_a_whole_line(folder: Path) -> None:
    with rating(folder) as site:
        page = get(site, "/rate?rater=Anna")
        main = page[page.index("<main") : page.index("So far")]
        for hidden in (*MODELS[:2], "strict", "kind:model", "passed"):
            assert hidden not in main
        assert "It says what will be done." in main
        assert re.search(r"<details id=\"target\">.*secret target", main, re.DOTALL)
        assert rate(site, "Anna").headers["location"].startswith("/rate?rater=Anna")
        assert rate(site, "Ben", remedy=0).status == 303
    first, second = lines_of(folder)
    assert first["id"] == second["id"]  # both are asked in the same order
    assert (first["rater"], second["rater"]) == ("Anna", "Ben")
    assert first["model"] in MODELS
    assert first["scores"] == {"apology": 1, "remedy": 2}
    assert (first["passed"], second["passed"]) == (True, False)
    assert first["rubric_hash"] == RUBRIC.hash
    assert {"time", "source", "weighted_score"} <= first.keys()


def test_a_run_that_cannot_be_read_keeps_nobody_from_rating_the_others(folder: Path) -> None:
    run = folder / "moved"
    run.mkdir()
    write_lines(run / "records.jsonl", [{"id": "a", "model": "llama 3", "answer": "b"}])
    settings = {"suite": {"optimal_tools": "../elsewhere/tools.yaml"}}
    manifest = {"schema": "calipers.run/1", "suite": {"name": "s"}, "metric_settings": settings}
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with rating(folder, "Ana") as site:
        page = get(site, "/rate")
    assert "cannot be shown" not in page
    assert unit_of(page)


def test_rare_verdicts_and_disagreements_come_early_whatever_the_order_of_the_file(
    folder: Path,
) -> None:
    with rating(folder) as site:
        first = get_order(site)
    write_lines(folder / "judged.jsonl", judged(60)[::-1])
    (folder.parent / "ratings.jsonl").unlink()
    with rating(folder) as site:
        second = get_order(site)
    assert first == second
    verdicts = Counter(
        "apart" if n % 30 == 0 else "failed" if n % 10 == 0 else "passed" for n in first
    )
    assert verdicts["apart"] == 2  # of 2 in 60
    assert verdicts["failed"] >= 2  # of 4 in 60
    assert verdicts["passed"] >= 4


def test_ratings_say_what_they_were_drawn_from_and_two_of_each_come_first(folder: Path) -> None:
    """54 of 60 replies pass both judges, 4 fail both, 2 are disputed."""
    with rating(folder) as site:
        for _ in range(6):
            rate(site, "Anna")
        drawn = [(line["stratum"], line["stratum_size"]) for line in lines_of(folder)]
        page = get(site, "/rate?rater=Anna")
    assert Counter(drawn) == {("passed", 54): 2, ("failed", 4): 2, ("judges disagree", 2): 2}
    files = [str(folder / "judged.jsonl"), str(folder.parent / "ratings.jsonl")]
    told = CliRunner().invoke(app, ["judge", "calibrate", *files, "--format", "json"])
    strict = next(e for e in json.loads(told.stdout)["judges"] if e["judge"] == "strict")
    assert strict["effective_n"] == pytest.approx(60**2 / (2 * 27**2 + 2 * 2**2 + 2))
    # Anna passes them all, the judge 54 of 60: not 2 of 6.
    assert strict["aspects"]["passed"]["sensitivity"]["value"] == pytest.approx(54 / 60)
    assert "stratum" not in page[page.index("<main") : page.index("So far")]


def get_order(site: Dashboard) -> list[int]:
    for _ in range(12):
        rate(site, "Anna")
    return [int(line["id"][-3:]) for line in lines_of(site.root)]


def test_undo_takes_back_ones_own_last_and_skip_puts_off(folder: Path) -> None:
    with rating(folder) as site:
        for rater in ("Anna", "Ben"):
            rate(site, rater)
        assert "undone" in post(site, {"rater": "Anna", "do": "undo"}).headers["location"]
        assert [line["rater"] for line in lines_of(folder)] == ["Ben"]
        assert "nothing" in post(site, {"rater": "Anna", "do": "undo"}).headers["location"]
        unit = unit_of(get(site, "/rate?rater=Anna"))
        post(site, {"rater": "Anna", "unit": unit, "do": "skip"})
        assert unit_of(get(site, "/rate?rater=Anna")) != unit
        for _ in range(59):
            rate(site, "Anna")
        assert unit_of(get(site, "/rate?rater=Anna")) == unit
        rate(site, "Anna")
        assert "All 60 records are rated" in get(site, "/rate?rater=Anna")
    assert len({line["id"] for line in lines_of(folder) if line["rater"] == "Anna"}) == 60


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": None}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Cookie": None}, 401),
        ({"Cookie": "calipers_token=wrong"}, 401),
        ({"Content_Type": "text/plain"}, 403),
        ({"path": "/runs"}, 405),
        ({"path": "/rate/pictures/x/0"}, 405),
    ],
)
def test_only_a_page_of_its_own_may_write(
    folder: Path, changed: dict[str, str | None], status: int
) -> None:
    with rating(folder) as site:
        unit = unit_of(get(site, "/rate?rater=Anna"))
        given = {"rater": "Anna", "unit": unit, "do": "rate", "score.apology": 1, "score.remedy": 2}
        assert post(site, given, **changed).status == status
        assert lines_of(folder) == []
        assert post(site, given).status == 303


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"score.remedy": "3"}, 400),
        ({"score.remedy": "nan"}, 400),
        ({"score.remedy": ""}, 400),
        ({"score.remedy": "none"}, 400),
        ({"unit": "../../etc/passwd"}, 404),
        ({"rater": "x" * 61}, 400),
        ({"rater": "a\x1b[2Jb"}, 400),
        ({"rater": ""}, 400),
        ({"x": "y" * (1 << 16)}, 403),
        ({f"f{n}": "" for n in range(300)}, 400),
    ],
)
def test_what_is_no_rating_is_not_written(
    folder: Path, changed: dict[str, str], status: int
) -> None:
    with rating(folder) as site:
        unit = unit_of(get(site, "/rate?rater=Anna"))
        given = {"rater": "Anna", "unit": unit, "score.apology": 1, "score.remedy": 2}
        assert post(site, {**given, **changed}).status == status
    assert lines_of(folder) == []


def test_without_it_nothing_can_be_written(folder: Path) -> None:
    with dashboard(folder, token=TOKEN) as site:
        assert post(site, {"rater": "Anna", "do": "undo"}).status == 405
        answer = site.get("/rate", headers={"Cookie": f"calipers_token={TOKEN}"})
        assert answer.status == 404
    with (
        pytest.raises(ValueError, match="token"),
        dashboard(folder, rating=Rating(folder / "r.jsonl", None)),
    ):
        pass


def test_sent_twice_is_rated_once(folder: Path) -> None:
    with rating(folder, rater="Anna") as site:
        unit = unit_of(get(site, "/rate"))
        given = {"unit": unit, "score.apology": 1, "score.remedy": 2}
        for _ in range(2):
            assert post(site, given).status == 303
    assert [line["rater"] for line in lines_of(folder)] == ["Anna"]


def test_ratings_are_read_by_calibrate_and_agree(folder: Path) -> None:
    with rating(folder) as site:
        for n in range(20):
            for rater in ("Anna", "Ben"):
                rate(site, rater, remedy=0 if n % 4 == 0 or (n == 1 and rater == "Ben") else 2)
        page = get(site, "/rate?rater=Anna")
    assert "Krippendorff" in page
    ratings = str(folder.parent / "ratings.jsonl")
    told = CliRunner().invoke(
        app, ["judge", "calibrate", str(folder / "judged.jsonl"), ratings, "--format", "json"]
    )
    assert told.exit_code == 0, told.output
    strict = next(e for e in json.loads(told.stdout)["judges"] if e["judge"] == "strict")
    assert strict["n"] == 20
    shown = f"{strict['aspects']['passed']['cohen_kappa']['value']:.2f}"
    assert shown in page
    asked = ["--rater-field", "rater", "--value", "passed", "--unit", "id,model"]
    told = CliRunner().invoke(app, ["agree", ratings, *asked, "--format", "json"])
    assert told.exit_code == 0, told.output
    alpha = json.loads(told.stdout)["measures"]["krippendorff_alpha_nominal"]["value"]
    assert f"{alpha:.2f}" in page


def test_a_torn_line_is_an_error_and_another_file_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "ratings.jsonl"
    path.write_text('{"id": "case-001", "answer": "42"}\n')
    with pytest.raises(UsageError, match="not a file of ratings"):
        RaterFile(path)


def test_without_a_rubric_people_say_yes_or_no(folder: Path) -> None:
    (folder / "rubric.yaml").unlink()
    with rating(folder, rater="Anna") as site:
        page = get(site, "/rate")
        assert "rubric is not in this folder" in page
        post(site, {"unit": unit_of(page), "passed": "no"})
    assert lines_of(folder)[0]["passed"] is False
    assert read_scores(None, {"passed": "yes"}) == {"passed": True}


@pytest.mark.parametrize(
    ("kappa", "more"),
    [
        (Estimate(value=0.8, low=0.5, n=50), 63),
        (Estimate(value=0.8, low=0.6, n=50), 0),
        (Estimate(value=0.6, low=0.5, n=50), None),
        (Estimate(value=0.9, n=3), None),
    ],
)
def test_how_many_more_ratings(kappa: Estimate, more: int | None) -> None:
    assert count_missing_ratings(kappa, 0.6) == more
