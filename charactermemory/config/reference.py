"""The settings' reference, made from the settings themselves so that it cannot go stale."""

from __future__ import annotations

from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import SecretStr

from charactermemory.config.settings import Settings

_TYPE_NAMES = {
    str: "text",
    Path: "path",
    SecretStr: "secret text",
    int: "whole number from 0",
    float: "number above 0",
}

_INTRODUCTION = """\
# Settings

`Settings.from_mapping({...})` takes the keys below; in a Django project they are the entries of
`CHARACTER_MEMORY` in the settings module. The reference project fills that from environment variables of
the same names, except `LANGUAGE`, which it reads from `MEMORY_LANGUAGE` because gettext has a use for
`LANGUAGE`, and puts the embedded stores and the statistics under `DATA_DIR` unless told otherwise.

Values are texts, as from an environment, or already of the type named. A blank text counts as not given. An
unknown key is refused, and so is a store mode without what it needs. Secrets and addresses are never shown in
a `repr` or an error.

"""


class SettingDoc(NamedTuple):
    """One setting as the reference shows it."""

    key: str
    """Its upper-case name."""
    type: str
    """What a value is; the tokens where only some are allowed."""
    default: str
    """What holds when it is not given; empty for nothing."""
    meaning: str
    """What it does, and when it is required."""


def describe_settings() -> list[SettingDoc]:
    """Return every setting, in the order of the page."""
    return [
        SettingDoc(
            key=name.upper(),
            type=_type_name(field.annotation),
            default="" if field.default is None else str(field.default),
            meaning=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def settings_page() -> str:
    """Return docs/settings.md."""
    rows = ["| Key | Type | Default | Meaning |", "|---|---|---|---|"]
    for doc in describe_settings():
        default = f"`{doc.default}`" if doc.default else ""
        rows.append(f"| `{doc.key}` | {doc.type} | {default} | {doc.meaning} |")
    return _INTRODUCTION + "\n".join(rows) + "\n"


def _type_name(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{token}`" for token in get_args(annotation))
    given = [argument for argument in get_args(annotation) if argument is not NoneType]
    return _type_name(given[0]) if given else _TYPE_NAMES[annotation]
