"""The file of a baseline: read strictly, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

from calipers.gates.baselines import Recorded, parse_baseline
from calipers.support.errors import UsageError
from calipers.support.strict_json import dump_strict
from calipers.support.whole_files import write_whole

RECORD_FIRST = "record one first: calipers gate … --save-baseline FILE"


def read_baseline(path: Path) -> Recorded:
    """Return the recorded run."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", fix=RECORD_FIRST) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as JSON", fix=RECORD_FIRST) from error
    return parse_baseline(value, source=str(path))


def write_baseline(path: Path, recorded: Recorded) -> None:
    """Write a recorded run."""
    write_whole(path, dump_strict(recorded.to_dict()) + "\n")
