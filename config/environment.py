"""What the reference project takes from environment variables.

Only this package reads the environment; charactermemory and memory_app are given a mapping.
"""

import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

_MEMORY_KEYS = frozenset(
    {
        "GRAPH_STORE_MODE",
        "OXIGRAPH_PATH",
        "OXIGRAPH_URL",
        "VECTOR_STORE_MODE",
        "VECTOR_STORE_PATH",
        "QDRANT_CONNECTION_STRING",
        "EMBEDDING_PROVIDER",
        "EMBEDDING_MODEL",
        "EMBEDDING_MODEL_PATH",
        "EMBEDDING_MAX_RETRIES",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "RETRIEVAL_STATS_STORE_MODE",
        "RETRIEVAL_STATS_PATH",
        "WRITER_LOCK_PATH",
        "FENCE_SECRET",
        "SELECTIVITY_SMOOTHING_ALPHA",
        "SELECTIVITY_GAMMA",
    }
)
_APP_KEYS = frozenset(
    {
        "STATISTICS",
        "DISPATCH",
        "REPAIR_MAX_ATTEMPTS",
        "REPAIR_BATCH",
        "REPAIR_LEASE_SECONDS",
        "REPAIR_COOLDOWN_SECONDS",
        "REPAIR_KEEP_DAYS",
        "RETRIEVAL_EVENTS_SAMPLE_RATE",
        "RETRIEVAL_EVENTS_KEEP_DAYS",
        "EMBEDDING_PROVIDER_FACTORY",
    }
)
_APP_PREFIX = "MEMORY_"
_FANOUT_PREFIX = "RETRIEVAL_FANOUT_"
# GNU gettext already gives LANGUAGE a meaning in the environment (a list of locales), so it is not read.
_LANGUAGE_VARIABLE = "MEMORY_LANGUAGE"


def flag(environment: Mapping[str, str], name: str) -> bool:
    """Tell whether a variable switches something on: exactly ``1`` does, unset, empty and ``0`` do not.

    Raises ``ValueError`` for any other value, so that ``DEBUG=false`` is never read as yes or no by guess.
    """
    value = environment.get(name, "")
    if value in ("", "0"):
        return False
    if value == "1":
        return True
    raise ValueError(f"{name} must be 0 or 1, not {value!r}")


def memory_settings(environment: Mapping[str, str], data_dir: Path) -> dict[str, str]:
    """Return the CHARACTER_MEMORY mapping: every memory variable that is set and not empty, and for the
    embedded stores a place under ``data_dir``.
    """
    defaults = {
        "OXIGRAPH_PATH": str(data_dir / "oxigraph"),
        "VECTOR_STORE_PATH": str(data_dir / "vectors"),
        "RETRIEVAL_STATS_PATH": str(data_dir / "retrieval-stats.sqlite3"),
    }
    given = {
        name: value
        for name, value in environment.items()
        if value and (name in _MEMORY_KEYS or name.startswith(_FANOUT_PREFIX))
    }
    given |= {name: value for name in _APP_KEYS if (value := environment.get(_APP_PREFIX + name))}
    language = environment.get(_LANGUAGE_VARIABLE)
    return defaults | given | ({"LANGUAGE": language} if language else {})


def secret_key(environment: Mapping[str, str], path: Path) -> str:
    """Return ``DJANGO_SECRET_KEY``, or the key kept in ``path``: made once, readable by its owner only.

    Several processes starting together agree on one key: the file appears whole under its name, and the
    first one wins.

    Raises:
        ImproperlyConfigured: the file cannot be read or made.
    """
    given = environment.get("DJANGO_SECRET_KEY")
    if given:
        return given
    try:
        return _kept(path)
    except OSError as error:
        raise _unusable(path.parent, error) from error


def make_folder(path: Path) -> None:
    """Make the folder ``path`` if it is not there.

    Raises:
        ImproperlyConfigured: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(folder: Path, error: OSError) -> ImproperlyConfigured:
    return ImproperlyConfigured(
        f"{folder} cannot be used: {error.strerror or error}. Set DATA_DIR to a folder that can be written."
    )


def _kept(path: Path) -> str:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(48))
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)
    return path.read_text(encoding="ascii").strip()
