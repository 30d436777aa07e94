"""The reference pages of settings and checks, made from the code so that they cannot go stale.

`python -m memory_app.reference settings` prints docs/settings.md, `... checks` docs/checks.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from charactermemory.config import SettingDoc
from charactermemory.config.reference import settings_page as core_page

_TYPE_NAMES: dict[Any, str] = {str: "import string", int: "whole number from 1", float: "number from 0 to 1"}
_SETTINGS = """\
## The app's own keys

These stand beside the ones above in `CHARACTER_MEMORY`. The reference project reads them from variables of the
same names with `MEMORY_` before them, except `API`.

"""
_CHECKS = """\
# System checks

What `manage.py check` says about a deployment, by id. Errors stop every command; those marked `--deploy` or
`--database` are made only when asked for with that option.

"""


def describe_app_settings() -> list[SettingDoc]:
    """Return every key that the app adds to the core's, in the order of the page."""
    from memory_app.conf import AppSettings

    return [
        SettingDoc(
            key=name.upper(),
            type=_type_name(field.annotation),
            default="" if field.is_required() or not field.default else str(field.default),
            meaning=field.description or "",
        )
        for name, field in AppSettings.model_fields.items()
        if name != "core"
    ]


def settings_page() -> str:
    """Return docs/settings.md."""
    rows = ["| Key | Type | Default | Meaning |", "|---|---|---|---|"]
    for doc in describe_app_settings():
        default = f"`{doc.default}`" if doc.default else ""
        rows.append(f"| `{doc.key}` | {doc.type} | {default} | {doc.meaning} |")
    return f"{core_page()}\n{_SETTINGS}" + "\n".join(rows) + "\n"


def checks_page() -> str:
    """Return docs/checks.md."""
    from memory_app.checks import Id

    rows = ["| Id | Meaning |", "|---|---|", *(f"| `{item.code}` | {item.value} |" for item in Id)]
    return _CHECKS + "\n".join(rows) + "\n"


def _type_name(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{token}`" for token in get_args(annotation))
    if get_origin(annotation) is Mapping:
        return "mapping"
    given = [argument for argument in get_args(annotation) if argument is not NoneType]
    return _type_name(given[0]) if given else _TYPE_NAMES[annotation]


if __name__ == "__main__":
    sys.stdout.write({"settings": settings_page, "checks": checks_page}[sys.argv[1]]())
