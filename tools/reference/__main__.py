"""`python -m tools.reference`: write every page again."""

from pathlib import Path

from tools.reference import PAGES

ROOT = Path(__file__).resolve().parents[2]
for name, write in PAGES.items():
    path = ROOT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(write(), encoding="utf-8")
