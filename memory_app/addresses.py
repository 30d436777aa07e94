"""Which addresses of a project the API takes, because its own stand before them under the same prefix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.urls import URLPattern, URLResolver

OURS = "memory_app.urls"
"""Answers whatever begins with its prefix, so that an address that is none is a problem of the API too."""


def hidden(patterns: Sequence[URLPattern | URLResolver], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the prefix of the API and the address that it hides, for each that comes behind it in `patterns`."""
    for place, item in enumerate(patterns):
        if not isinstance(item, URLResolver):
            continue
        prefix = str(item.pattern)
        if getattr(item.urlconf_module, "__name__", None) != OURS:
            yield from hidden(item.url_patterns, above + prefix)
            continue
        for later in patterns[place + 1 :]:
            if str(later.pattern).startswith(prefix):
                yield above + prefix, above + str(later.pattern)
