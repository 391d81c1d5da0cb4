"""Environment variables that name the servers of providers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from hashlib import sha256

from calipers.systems.spec import NamedModel

_NAMES_SERVER = re.compile(r"([A-Z]+)_(\w+_)?(BASE_URL|API_BASE|ENDPOINT|ENDPOINT_URL|API_VERSION)")
_PREFIXES = {"azure": ("AZURE", "OPENAI"), "bedrock": ("AWS",)}


def hash_servers(models: Iterable[NamedModel]) -> dict[str, str]:
    """Return the variables that decide which server is asked, each with a hash of its value.

    Only those of the providers whose models have no `base_url` of their own. The value itself is
    not repeated: a URL may hold a password.
    """
    names = [each.model for each in models if each.model is not None and each.base_url is None]
    providers = {name.partition(":")[0].partition("-")[0] for name in names}
    prefixes = {prefix for each in providers for prefix in _PREFIXES.get(each, (each.upper(),))}
    return {
        name: sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        for name, value in sorted(os.environ.items())
        if (found := _NAMES_SERVER.fullmatch(name)) and found[1] in prefixes
    }
