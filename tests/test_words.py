"""Functions are verbs in the imperative, their docstrings begin with one; a class has its name alone.

A name or docstring that fails here begins with a word that is not in `VERBS`: reword it, or add
the verb. A function that is rightly a noun (a hook of another library, the name of a statistic)
goes into `NOUNS`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import calipers

PACKAGE = Path(calipers.__file__).parent
VERBS = frozenset(
    """
    cache add adjust agree allow announce annotate answer append apply arrange ask assemble assume attempt
    attribute audit average
    batch begin bend bootstrap bound break build calibrate call cancel change check choose classify
    clean clip close code collect combine compare complete compute concat configure conform
    consume
    convert copy correct count create cut decide declare decode decompress delete describe detect
    determine diff disable do download draw drop dump encode end ensure escape estimate evaluate
    examine exit explain explode export express extend extract fail fetch fill filter find finish fit flag
    flatten flush fold follow force forget format freeze gate generate get give grade group guarantee guard guess
    handle hash hide hold identify ignore import infer inflate insert inspect interpolate invert iterate
    join judge keep kill label limit linearize list listen load locate lock log look make map mark
    mask match measure merge move name narrow normalize note number open order pair parse pass
    pause permute pick place plan play pool power prepare price print prune publish put queue quote raise rank
    ratchet reach read rebuild receive recognize recolor recommend record redirect
    reduce refuse register reject release
    reload remember remove rename render repeat replace report request require reraise resample
    reserve reset resolve restore restrict resume retry return reuse reverse rewrite round run
    sample save say schedule score search seed select send serve set settle share shift shorten show
    shuffle simulate skip slow sort spell split spread stage standardize start stop store stream
    strip subtract suggest sum summarize support suppress tabulate take tear tell test time toggle tokenize touch
    trace track translate treat trim try turn gather pack unpack update upload use validate verify view wait
    walk warn watch weigh widen work wrap write yield
    allot embed feed index relativize unescape unite unwrap
    compile correlate derive digest outline peek persist respell rotate scan shrink tally unify
    unquote
    """.split()
)
QUESTIONS = frozenset("are asks can fits has holds is matches may must needs takes tells".split())
CONVERSIONS = frozenset("as from to with".split())
NOUN_FOLDERS = ("cli/", "statistics/")  # commands, and functions named after their statistic
NOUNS = frozenset(
    """
    at_least at_most calipers catalogue category centre centre_column concat constant cosine doctor
    init jaccard layer mean metric_named metrics_of nearest option part quantile quantity reason
    session_folder shown strengths_of_wins timed total total_column
    """.split()
)
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parse_package() -> dict[Path, ast.Module]:
    """Return each file of the package, and of its types, by its place."""
    paths = sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")])
    return {
        path.relative_to(PACKAGE): ast.parse(path.read_text(encoding="utf-8")) for path in paths
    }


@cache
def list_functions() -> list[tuple[str, FUNCTIONS, bool]]:
    """Return where each function is, the function, and whether it stands in a module itself."""
    return [
        (f"{place}:{node.lineno}: {node.name}", node, node in tree.body)
        for place, tree in parse_package().items()
        # Files for users have functions that are called as users like.
        if place.suffix == ".py" and "starter" not in place.parts
        for node in walk_statements(tree)
        if isinstance(node, FUNCTIONS) and not is_property(node)
    ]


def walk_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements within; expressions, which are most of a file, hold no function."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for each in getattr(node, name, ()):
            yield each
            yield from walk_statements(each)


def is_property(node: FUNCTIONS) -> bool:
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def test_functions_are_verbs() -> None:
    known = VERBS | QUESTIONS | CONVERSIONS
    wrong = [
        where
        for where, node, is_of_module in list_functions()
        if is_of_module
        and not node.name.startswith(("__", "pytest_"))
        and (node.name.startswith("_") or not where.startswith(NOUN_FOLDERS))
        and node.name.lstrip("_").partition("_")[0] not in known
        and node.name not in NOUNS
    ]
    assert not wrong, f"not verbs of tests/test_words.py: {wrong}"


def test_docstrings_begin_with_a_verb() -> None:
    wrong = [
        f"{where}: {text.splitlines()[0]}"
        for where, node, _ in list_functions()
        if (text := ast.get_docstring(node)) and text.split()[0].strip(",.;:").lower() not in VERBS
    ]
    assert not wrong, f"docstrings that begin with no verb of tests/test_words.py: {wrong}"


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for place, tree in parse_package().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{place}:{node.lineno}")
    shared = [f"{name}: {' and '.join(found)}" for name, found in places.items() if len(found) > 1]
    assert not shared, "rename all but one:\n" + "\n".join(shared)
