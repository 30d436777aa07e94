"""Says early and clearly that an optional package is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from charactermemory.errors import OutOfDomain


def require_package(package: str) -> None:
    """Check that the package of the optional extra of the same name is there, without importing it.

    Raises:
        OutOfDomain: naming EMBEDDING_PROVIDER and the command that installs the extra.
    """
    if find_spec(package) is None:
        raise OutOfDomain(
            keys=("EMBEDDING_PROVIDER",),
            expected=f"an installed provider (pip install 'django-character-memory[{package}]')",
            actual=f"{package}, which is not installed",
        )
