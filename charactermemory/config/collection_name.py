"""What a collection may be called."""

from __future__ import annotations

import re

from charactermemory.errors import OutOfDomain

_COLLECTION_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,127}")
_RESERVED_NAMES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{device}{n}" for device in ("com", "lpt") for n in range(1, 10))]
)


def validate_collection_name(name: str) -> None:
    """Check a collection's name, before any folder is touched (recall.md §11.10).

    Raises:
        OutOfDomain: not 1-128 of lowercase ASCII letters, digits, `_` and `-`, starting with a letter or
            digit, or a device name of Windows.
    """
    if not isinstance(name, str) or not _COLLECTION_NAME.fullmatch(name) or name in _RESERVED_NAMES:
        raise OutOfDomain(
            keys=("collection_name",),
            expected="1-128 lowercase ASCII letters, digits, '_' or '-', the first a letter or digit, "
            "and no device name such as con or lpt1",
            actual=repr(name),
        )
