"""The fence around remembered text in a prompt (DESIGN R14).

Unguessable for whoever wrote the text, since it is made from a secret of the deployment; the same for every
call of one collection, so that prompt caches and byte-identical packs hold.
"""

from __future__ import annotations

import hashlib
import hmac
import re

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9-]{7,63}")


def fence_of(secret: str, collection: str) -> str:
    """Return the fence word of a collection.

    Args:
        secret: `FENCE_SECRET` of the deployment.
        collection: the collection's name.
    """
    made = hmac.new(secret.encode(), f"fence:{collection}".encode(), hashlib.sha256).hexdigest()
    return f"memory-{made[:16]}"


def check_fence(fence: str) -> str:
    """Return `fence` if it can stand in any style.

    Raises:
        ValueError: it is no word of 8 to 64 letters, digits and hyphens that starts with a letter.
    """
    if not _WORD.fullmatch(fence):
        raise ValueError("a fence is a word of 8-64 letters, digits and hyphens, starting with a letter")
    return fence


def enclose(body: str, fence: str, block: str) -> str:
    """Put `body` between the fence's tags; an occurrence of the fence inside it loses its shape.

    Args:
        body: text that may have been written by anybody.
        fence: the fence word.
        block: what the block is called, `stable` or `volatile`.
    """
    escaped = re.sub(
        re.escape(fence), lambda found: found.group().replace("-", "_"), body, flags=re.IGNORECASE
    )
    return f'<{fence} block="{block}">\n{escaped}\n</{fence}>'
