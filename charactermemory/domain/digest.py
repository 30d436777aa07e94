"""The digest of an object: what makes two values under one id the same or a collision (decisions R4)."""

from __future__ import annotations

import hashlib
import json

from charactermemory.domain.model import Model


def digest(item: Model) -> str:
    """Return the SHA-256, in hex, of the canonical JSON of the whole object.

    Keys sorted, no spaces, UTF-8 unescaped, absent fields left out, UTC times with six digits and `Z`,
    a scene's time with its offset, id sets sorted, assertions and participants in order.
    """
    value = item.model_dump(mode="json", exclude_none=True)
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
