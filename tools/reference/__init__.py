"""The pages of docs/ that are written from the declarations in the code.

    python -m tools.reference        (make reference)

Tests fail where a page is stale.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from calipers.metrics import metrics_of
from calipers.reports.tables.metric_catalogue import write_catalogue
from tools.reference.api import write_api_page
from tools.reference.checks import list_kinds
from tools.reference.commands import write_commands_page
from tools.reference.fields import list_fields
from tools.reference.keys import write_policy_page, write_suite_page
from tools.reference.licenses import write_licenses_page
from tools.reference.options import write_page, write_stub
from tools.reference.specifications import write_specifications_page

PAGES: dict[str, Callable[[], str]] = {
    "docs/metrics.md": lambda: write_catalogue(metrics_of(None)),
    "docs/options.md": write_page,
    "docs/reference/api.md": write_api_page,
    "docs/reference/commands.md": write_commands_page,
    "docs/reference/licenses.md": write_licenses_page,
    "docs/reference/policy-keys.md": write_policy_page,
    "docs/reference/specifications.md": partial(write_specifications_page, metrics_of(None)),
    "docs/reference/suite-keys.md": write_suite_page,
    "src/calipers/support/keywords.pyi": write_stub,
}

PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "docs/checks.md": ("kinds", list_kinds),
    "docs/records.md": ("fields", list_fields),
}
"""Tables within pages, each between `<!-- NAME -->` and `<!-- end -->`."""


def replace_part(page: str, name: str, table: str) -> str:
    """Return a page with the table between its marks written anew."""
    before, mark, rest = page.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not end:
        raise ValueError(f"there is no part called {name}")
    return f"{before}{mark}{table}{end}{after}"
