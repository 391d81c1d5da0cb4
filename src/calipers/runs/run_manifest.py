"""The manifest of a run in progress: compared with the folder's, and written as it changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calipers.records.result_folder import MANIFEST
from calipers.runs.changes import MAY_CHANGE, list_changes, note_checks, note_policy
from calipers.runs.folder import Folder
from calipers.runs.manifest import FRESH, IMPORTED, ORDER_SEED
from calipers.support.errors import UsageError

REPLACED = ("replaced_calls", "replaced_usd")  # by later calls: of the state, and of the manifest
SPENT = "spent_usd"


class RunManifest:
    """The manifest of a run, in memory and on disk."""

    def __init__(self, folder: Folder, content: dict[str, Any], base: Path) -> None:
        self._folder = folder
        self._base = base  # the suite's own folder
        self._content = content
        self.checks_changed = False  # since the folder's records were checked

    def begin(self, order_seed: int | None) -> list[str]:
        """Write down what the folder is of, and go on from what it says of earlier runs.

        Return what the user is to be told. The seed draws the order of the tasks, of a run until
        the gate is decided.

        Raises:
            UsageError: The answers in the folder are of another suite, other data or other code.
        """
        now, before = self._content, self._folder.read_manifest() or {}
        notices: list[str] = []
        if before:
            if changes := list_changes(before, now, self._base):
                raise UsageError(
                    f"{self._folder.path}: its answers are stale: {'; '.join(changes)}",
                    fix="--fresh calls again and keeps the old answers beside the folder, "
                    f"-o FOLDER takes another one; {', '.join(MAY_CHANGE)} may change",
                )
            changed = list(note_checks(before, now))
            self.checks_changed = bool(changed)
            notices += (*note_policy(before, now), *changed)
        for name in (*REPLACED, SPENT):
            now[name] = before.get(name, 0)
        now[IMPORTED] = before.get(IMPORTED, {})
        now[FRESH] = now[FRESH] or before.get(FRESH, False)
        now |= self._seed(before, order_seed)
        self._folder.remove_verdicts()
        self.note({})
        return notices

    def note(self, changed: Mapping[str, Any]) -> None:
        """Change some of it, on the disk too."""
        self._content |= changed
        self._folder.write_json(MANIFEST, self._content)

    def __getitem__(self, name: str) -> Any:
        return self._content[name]

    def _seed(self, before: Mapping[str, Any], seed: int | None) -> dict[str, int]:
        """Return the seed of the order of tasks; after results were seen, it must not change."""
        drawn = before.get(ORDER_SEED)
        if seed is None:
            return {} if drawn is None else {ORDER_SEED: drawn}
        if drawn not in (None, seed):
            raise UsageError(
                f"{self._folder.path}: its tasks were drawn with --seed {drawn}, not {seed}",
                fix=f"continue with --seed {drawn}, or start again: --fresh",
            )
        return {ORDER_SEED: seed}
