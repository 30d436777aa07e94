"""The pinned files and the package's own metadata agree."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def pins(name: str) -> dict[str, str]:
    """Return the exact versions of a requirements file and of the files it includes."""
    found: dict[str, str] = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("-r "):
            found |= pins(line[3:])
        elif line and not line.startswith("#"):
            pin = re.fullmatch(r"([A-Za-z0-9._-]+)==(\S+)", line)
            assert pin, f"{name}: not an exact pin: {line}"
            found[canonicalize_name(pin[1])] = pin[2]
    return found


@pytest.mark.parametrize(
    ("declared", "file"),
    [
        ([*PROJECT["dependencies"], *EXTRAS["openai"], *EXTRAS["server"]], "requirements.txt"),
        (EXTRAS["dev"], "requirements-dev.txt"),
    ],
    ids=["runtime", "dev"],
)
def test_every_declared_dependency_is_pinned_within_its_range(declared: list[str], file: str) -> None:
    pinned = pins(file)
    for requirement in map(Requirement, declared):
        assert canonicalize_name(requirement.name) in pinned, f"{requirement.name} has no pin in {file}"
        version = pinned[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, (
            f"{file} pins {version}, pyproject.toml asks for {requirement}"
        )
