"""`python -m tools.reference`: write every page again."""

from pathlib import Path

from tools.reference import PAGES, PARTS, replace_part

ROOT = Path(__file__).resolve().parents[2]
for name, write in PAGES.items():
    path = ROOT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(write(), encoding="utf-8")
for name, (part, write) in PARTS.items():
    path = ROOT / name
    page = path.read_text(encoding="utf-8")
    path.write_text(replace_part(page, part, write()), encoding="utf-8")
