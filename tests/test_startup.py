"""Starting is quick: nothing heavy is loaded before it is needed; what is public is available."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import calipers

HEAVY = {
    *("polars", "narwhals", "rich", "pyspark", "numpy", "pandas", "pyarrow", "rustworkx"),
    *("altair", "vl_convert", "jinja2", "fastapi", "uvicorn"),
    *("pydantic", "pydantic_core", "yaml", "scipy", "numpy.ma", "backports.zstd"),
    *("aiohttp", "openai", "pydantic_ai", "genai_prices", "httpx", "httpx2", "rich.live"),
    *("calipers.records.logs.garak", "calipers.metrics.checks.kinds.pii"),
    *("torch", "transformers", "huggingface_hub", "calipers.metrics.similarity.bert_score"),
    *("calipers.judges.panels", "calipers.judges.rubrics"),
    *(
        "calipers.runs.early_stopping",
        "calipers.comparisons.sequential_pair",
    ),
    *("urllib.request", "http.client"),
}


def loaded_after(code: str) -> set[str]:
    """The heavy modules that a fresh interpreter has loaded when the code is through."""
    show = "import sys; print(*sys.modules, file=sys.stderr)"
    result = subprocess.run(
        [sys.executable, "-c", f"import atexit\natexit.register(lambda: exec({show!r}))\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    modules = set(result.stderr.split())
    assert "calipers" in modules
    return modules & HEAVY


@pytest.mark.parametrize(
    "code",
    [
        "import calipers; calipers.__version__; dir(calipers)",
        "import calipers.cli",
        "import calipers.runs.pytest_plugin",
        "import sys; sys.argv = ['calipers', '--help']; from calipers.cli import main; main()",
        "import sys; sys.argv = ['calipers', 'score', '-h']; from calipers.cli import main; main()",
        "import sys; sys.argv = ['calipers', 'judge', '-h']; from calipers.cli import main; main()",
        "import sys; sys.argv = ['calipers', 'view', '-h']; from calipers.cli import main; main()",
        "import sys; sys.argv = ['calipers', 'report', '-h']; from calipers.cli import main; main()",
        "import sys; sys.argv = ['calipers', '--version']; from calipers.cli import main; main()",
    ],
)
def test_nothing_heavy_is_loaded_early(code: str) -> None:
    assert loaded_after(code) == set()


def test_what_is_used_is_loaded_and_no_more() -> None:
    loaded = loaded_after("import calipers; calipers.score([{'answer': 'a'}])")
    assert loaded - {"backports.zstd"} == {"polars"}


def run_command(*arguments: object) -> str:
    given = ["calipers", *map(str, arguments)]
    return f"import sys; sys.argv = {given!r}; from calipers.cli import main; main()"


def test_scoring_a_small_file_loads_what_prints_it_besides(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"id": "a", "answer": "4"}\n{"id": "b", "answer": "5", "target": "4"}\n')
    loaded = loaded_after(run_command("score", path))
    assert loaded - {"backports.zstd"} == {"polars", "rich"}


def test_percentiles_take_numpy_too(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"correct": true, "latency_ms": 9}\n{"correct": false, "latency_ms": 4}\n')
    loaded = loaded_after(run_command("score", path))
    assert loaded - {"backports.zstd", "numpy.ma"} == {"polars", "numpy", "rich"}


def test_a_run_of_functions_loads_nothing_for_models_or_servers(tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="Jinja is not installed (extra `report`)")
    (tmp_path / "sut.py").write_text("def answer(record):\n    return '4'\n")
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "input": "2 + 2", "target": "4"}\n')
    suite = tmp_path / "suite.yaml"
    suite.write_text("name: s\ndata: tasks.jsonl\nsystems: [{name: f, python: sut.py:answer}]\n")
    loaded_after(
        run_command("run", suite, "-o", tmp_path / "first")
    )  # draws a script, and keeps it
    loaded = loaded_after(run_command("run", suite, "-o", tmp_path / "out"))
    assert (tmp_path / "out" / "report.html").exists()
    assert not loaded & {
        *("altair", "vl_convert", "fastapi", "uvicorn", "pandas", "pyarrow", "pyspark", "scipy"),
        *("aiohttp", "openai", "pydantic_ai", "httpx", "httpx2", "rustworkx"),
        *("rich.live", "calipers.records.logs.garak", "torch", "urllib.request", "http.client"),
    }
    assert {name for name in loaded if name.startswith("calipers.")} == set()  # for other suites


def test_everything_public_can_be_had() -> None:
    public: list[str] = vars(calipers)["__all__"]
    assert len(set(public)) == len(public)
    for name in public:
        assert getattr(calipers, name) is not None
    assert set(public) <= set(dir(calipers))
    everything: dict[str, object] = {}
    exec("from calipers import *", everything)
    assert set(public) <= set(everything)


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="attribute nothing"):
        getattr(calipers, "nothing")  # noqa: B009 (the type checker knows it is not there)
