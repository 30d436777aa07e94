"""Reads the sample life that ships with the app."""

from __future__ import annotations

import tomllib
from importlib import resources

from memory_app.sample.checks import SampleLifeError, check_life
from memory_app.sample.life import SampleLife

__all__ = ["SampleLife", "SampleLifeError", "load_life", "parse_life"]


def load_life() -> SampleLife:
    """The shipped life, from `life.toml` beside this module."""
    return parse_life(resources.files("memory_app.sample").joinpath("life.toml").read_text("utf-8"))


def parse_life(text: str) -> SampleLife:
    """Read a life from TOML.

    Raises:
        tomllib.TOMLDecodeError: the text is no TOML.
        pydantic.ValidationError: a table does not have the keys and values it must have.
        SampleLifeError: the life does not hold together.
    """
    life = SampleLife.model_validate(tomllib.loads(text))
    check_life(life)
    return life
