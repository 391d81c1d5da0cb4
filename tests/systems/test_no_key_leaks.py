"""A key is in no file, page or stream, whatever a system does with it: in whole or in part."""

from __future__ import annotations

import re
import stat
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("aiohttp", reason="the extra run is not installed")
from calipers.systems.redact import Mask
from tests import commands
from tests.dashboard.dashboards import Dashboard, cache, serving
from tests.examples import examples
from tests.runs.suites_at_hand import SuiteFolder, chat, quick, suite_folder
from tests.systems.echoing import CASES, FORMS, EchoingServer

__all__ = ["cache", "quick", "serving"]

pytestmark = pytest.mark.usefixtures("quick")

KEY = "Xk29Lq7Z-04mNppT8_vR3wYb6Qc1Ud5Hf0Jg9s"
CUTS = (80, 200, 300, 500, 2000)  # where a message of ours is cut
EDGES = [at for cut in CUTS for at in range(max(0, cut - len(KEY) - 12), cut + 2)]
_LEAST = 9  # characters of a key, or of what it is in base64, that nobody may see


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_API_KEY", KEY)
    monkeypatch.setattr("calipers.systems.pace._TRIPS_AT", 10**9)  # every case is called


def parts(text: str, size: int) -> set[str]:
    return {text[at : at + size] for at in range(len(text) - size + 1)}


SECRETS = [
    *parts(KEY, _LEAST),
    *parts(KEY.encode().hex(), 3 * _LEAST),
    *(
        part
        for before in ("", "x", "xx")
        for part in parts(b64encode((before + KEY).encode()).decode()[4:-4], 2 * _LEAST)
    ),
]
_SECRET = re.compile("|".join(map(re.escape, SECRETS)))


def leaks(text: str) -> str | None:
    found = _SECRET.search(text)
    return found[0] if found else None


def tasks(cases: tuple[str, ...]) -> list[dict[str, Any]]:
    ordered = [(case, "plain", at) for case in cases for at in EDGES]
    ordered += [(case, form, at) for case in cases for form in FORMS for at in (0, 290, 480)]
    return [
        {"id": f"{case}-{form}-{at}-{n}", "input": f"[[{case} {form} {at}]]", "target": "1"}
        for n, (case, form, at) in enumerate(ordered)
    ]


def written(suite: SuiteFolder) -> Iterator[tuple[str, str]]:
    own = {"suite.yaml", "tasks.jsonl", "agent.py", "policy.yaml"}
    for path in filter(Path.is_file, suite.path.rglob("*")):
        if path.name not in own:
            yield str(path.relative_to(suite.path)), path.read_bytes().decode(errors="replace")


def check(suite: SuiteFolder) -> list[dict[str, Any]]:
    """Run a suite; nothing that it writes, says or shows holds a key."""
    result = suite.run(report=True)
    assert result.exit_code in (0, 3), result.output + result.stderr
    policy = suite.path / "policy.yaml"
    policy.write_text("thresholds: {blocking: {accuracy: 0.5}}")
    gate = ["gate", str(suite.results / "records.jsonl"), "--policy", str(policy)]
    gated = commands.run(*gate, "--junit", suite.path / "junit.xml")
    said = f"{result.output}\n{result.stderr}\n{gated.output}\n{gated.stderr}"
    shown = [("output", said), *written(suite)]
    for name, text in shown:
        assert leaks(text) is None, f"{name}: {leaks(text)}"
    return suite.records()


def system_of(kind: str, url: str) -> dict[str, Any]:
    if kind == "chat":
        return chat(url, api_key_env="PLANTED_API_KEY")
    if kind == "http":
        return {
            "name": "m",
            "http": f"{url.removesuffix('/v1')}/fields",
            "api_key_env": "PLANTED_API_KEY",
        }
    provider = {"name": "m", "model": f"{kind}:tiny", "api_key_env": "PLANTED_API_KEY"}
    return {**provider, "base_url": url if kind == "openai-chat" else url.removesuffix("/v1")}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["chat", "http"])
def test_a_server_that_repeats_the_key_at_every_offset(tmp_path: Path, kind: str) -> None:
    with EchoingServer().in_thread() as url:
        suite = suite_folder(
            tmp_path,
            tasks(CASES),
            [system_of(kind, url)],
            retries=0,
            cache="out/cache" if kind == "chat" else None,
            answer={"regex": "(.{0,40})"} if kind == "chat" else None,
        )
        records = check(suite)
    told = [each.get("error") or each.get("answer") or "" for each in records]
    assert not any("not called" in each for each in told)
    assert sum("***" in each for each in told) > len(records) / 3
    for path in filter(Path.is_file, suite.results.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 or path.name == ".lock", path.name


def test_the_sdk_of_a_provider(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra run is not installed")
    pytest.importorskip("anthropic", reason="pip install 'calipers[anthropic]'")
    few = tasks(("400", "500", "text", "html", "error", "say"))[::3]
    with EchoingServer().in_thread() as url:
        check(suite_folder(tmp_path, few, [system_of("anthropic", url)], retries=0))


AGENT = """
import os, sys
from tests.systems.echoing import echo, orders

def answer(record):
    text = echo(record["input"], os.environ["PLANTED_API_KEY"])
    case = orders(record["input"])[0]
    print("told", text, end="" if len(text) % 2 else "\\n")
    if case == "say":
        return text
    if case == "fields":
        return {"answer": text, text: 1, "tags": [text], "error": None}
    if case == "odd":
        return {"input": text}
    if case == "told":
        return {"error": "server: " + text}
    if case == "wrong":
        return {"cost_usd": text, "trace": {"tool_calls": [{"context": text}]}}
    raise ValueError(text)

if __name__ == "__main__":
    import json
    record = json.load(sys.stdin)
    case, _, at = orders(record["input"])
    text = echo(record["input"], os.environ["PLANTED_API_KEY"])
    if case == "say":
        print(json.dumps({"answer": text}))
    elif case == "wrong":
        print(text)
    else:
        sys.stderr.write(text + "y" * (65536 - at - 20 if case == "long" else 0))
        sys.exit(1)
"""


def agent_suite(path: Path, system: dict[str, Any], given: list[dict[str, Any]]) -> SuiteFolder:
    (path / "agent.py").write_text(AGENT)
    return suite_folder(path, given, [{"name": "a", **system}], retries=0, concurrency=4)


@pytest.mark.long
def test_a_function_that_tells_the_key(tmp_path: Path) -> None:
    given = tasks(("say", "fields", "odd", "told", "wrong", "raise"))[::3]
    records = check(agent_suite(tmp_path, {"python": "agent.py:answer"}, given))
    assert any("***" in str(each.get("error")) for each in records)


def test_a_module_that_tells_the_key_while_it_is_loaded(tmp_path: Path) -> None:
    suite = agent_suite(tmp_path, {"python": "agent.py:answer"}, tasks(("say",))[:1])
    (tmp_path / "agent.py").write_text(
        "import os\nraise ValueError(os.environ['PLANTED_API_KEY'])\n", encoding="utf-8"
    )
    result = suite.run(report=True)
    assert result.exit_code == 2
    assert leaks(result.output + result.stderr) is None


@pytest.mark.long
def test_a_command_that_tells_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    given = [*tasks(("say", "wrong", "raise", "long"))[::40]]
    system = {"command": [sys.executable, "agent.py"]}
    records = check(agent_suite(tmp_path, system, given))
    assert any("***" in str(each.get("error")) for each in records)


@pytest.mark.long
def test_judges_that_repeat_the_key(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(record):\n    return record['input']\n")
    few = tasks(("400", "500", "text", "html", "error", "say", "refusal"))[::8]
    with EchoingServer().in_thread() as url:
        judge = {"name": "j", "model": "openai:tiny", "rubric": "constructiveness"}
        suite = suite_folder(
            tmp_path,
            few,
            [{"name": "a", "python": "agent.py:answer"}],
            judges=[{**judge, "base_url": url, "api_key_env": "PLANTED_API_KEY"}],
            retries=0,
        )
        records = check(suite)
    assert any("***" in str(each["judgments"]) for each in records)


def test_the_dashboard_shows_no_key(tmp_path: Path, serving: Callable[..., Dashboard]) -> None:
    with EchoingServer().in_thread() as url:
        suite = suite_folder(
            tmp_path, tasks(("400", "say"))[::9], [system_of("chat", url)], retries=0
        )
        check(suite)
    site = serving(suite.path)
    tails = ("", "/samples", "/samples/1", "/score")
    places = ["/", *(f"/runs/{run}{tail}" for run in site.ids().values() for tail in tails)]
    for place in places:
        assert leaks(site.get(place).text) is None, place


@pytest.mark.parametrize(
    ("settings", "at"),
    [
        ({"extra_headers": {"X-Auth-Token": "word"}}, "X-Auth-Token"),
        ({"extra_headers": {"Ocp-Subscription-Key": "word"}}, "Subscription"),
    ],
)
def test_headers_for_keys_are_refused(tmp_path: Path, settings: dict[str, Any], at: str) -> None:
    system = {**chat("http://127.0.0.1:9/v1"), "settings": settings}
    result = suite_folder(tmp_path, tasks(("say",))[:1], [system]).run(report=True)
    assert result.exit_code == 2
    assert at in result.stderr


def test_what_looks_random_in_a_url_or_a_header_is_masked(tmp_path: Path) -> None:
    with EchoingServer().in_thread() as url:
        system = chat(f"{url}?v={KEY}", settings={"extra_headers": {"X-Tenant": KEY}})
        suite = suite_folder(tmp_path, tasks(("say",))[:1], [system], retries=0)
        check(suite)
        assert suite.run(report=True).exit_code == 0  # goes on in the same folder


@examples(200, deadline=None)
@given(
    st.text("abcdefghijkXYZ0123456789-_.+/=", min_size=16, max_size=64),
    st.sampled_from(sorted(FORMS)),
    st.text(max_size=30),
    st.text(max_size=30),
)
def test_every_form_of_any_key_is_masked(key: str, form: str, before: str, after: str) -> None:
    told = Mask([key]).mask_text(f"{before} {FORMS[form](key)} {after}")
    assert FORMS[form](key) not in told
    assert "***" in told


def test_other_texts_stay_as_they_are() -> None:
    mask = Mask([KEY, "not-needed", "planted-key-4711"])
    for text in ("plain", "a%20b &amp; \\n c", "Xk29", "key-471", "🙂%f0%9f%99%82", "İstanbul"):
        assert mask.mask_text(text) == text
