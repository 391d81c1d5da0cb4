"""Check that the built site loads nothing from elsewhere.

    python tools/check_site.py build/site

Links that a reader follows may lead anywhere; scripts, styles, pictures and frames may not.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path

_LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}


class _Loads(HTMLParser):
    """The addresses outside the site that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag loads."""
        address = dict(attrs).get(_LOADED.get(tag, "")) or ""
        if address.startswith(("http:", "https:", "//")):
            self.found.append(address)


def list_outside(site: Path) -> list[str]:
    """Return what the pages of a site load from elsewhere, each with its page."""
    outside: list[str] = []
    for page in sorted(site.rglob("*.html")):
        loads = _Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        outside += [f"{page.relative_to(site)} loads {each}" for each in loads.found]
    return outside


if __name__ == "__main__":
    found = list_outside(Path(sys.argv[1]))
    if found:
        sys.exit("\n".join(found))
