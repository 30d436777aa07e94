"""System checks: what is wrong with a deployment, before it shows (django-practice §2). Every one has a hint."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Tags, register
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections, router
from django.urls import get_resolver
from django.utils.module_loading import import_string

from charactermemory.config.failures import unknown_key
from charactermemory.errors import CharacterMemoryError, MissingForMode
from memory_app import addresses, conf, mounts, writable
from memory_app.conf import AppSettings

_NEAR_MISSES = ("CHARACTERMEMORY", "CHARACTER_MEMORY_SETTINGS", "CHARACTER_MEMORIES", "MEMORY_APP")
_BEGINNING = (
    f'Begin with {conf.NAME} = {{"OXIGRAPH_PATH": BASE_DIR / "data/graph", "VECTOR_STORE_PATH": '
    'BASE_DIR / "data/vectors"}; docs/settings.md lists every key.'
)
"""Hint for a host that has set nothing yet: all that is needed at once, not the first of it."""
_OPTIONAL = ("openai", "fastembed")
"""Embedding providers that are extras, each named as the package that it needs."""
TASK_TIME_LIMIT = 300
"""Seconds that a repair task may run at most, where the host sets no other limit."""


class Id(Enum):
    """Every id with what it means; E is an error, W a warning."""

    E001 = "A key of `CHARACTER_MEMORY` is unknown."
    E002 = "A value in `CHARACTER_MEMORY` cannot be read or is not allowed."
    E003 = "An import string names nothing that can be called."
    E004 = "The settings have a name near `CHARACTER_MEMORY`, and not that one."
    E005 = "A mode lacks what it needs."
    E007 = "Embedded stores belong to one process, and the repairs run in another."
    E008 = "The repairs run in Celery, which is not installed."
    E009 = "An embedded store lies on a network file system."
    E010 = "`USE_TZ` is off."
    E011 = "A file stands where a store's folder has to be, or a folder where its file has to be."
    E012 = "The embedding provider chosen is not installed."
    E013 = "The app's rows go to a database that is neither SQLite nor PostgreSQL."
    W001 = "Embedded stores outside `DEBUG` serve one process only (`check --deploy`)."
    W002 = "A store in memory outside `DEBUG` forgets everything (`check --deploy`)."
    W003 = "A store lies inside `MEDIA_ROOT` or `STATIC_ROOT`, from where files are served."
    W005 = "The broker hands a task out again while it may still run."
    W008 = "Several processes share a database that cannot skip locked rows (`check --database`)."
    W009 = "Migrations of the app are not applied (`check --database`)."
    W010 = "The user who runs the command may not write a store's folder."
    W011 = "A store's folder is named by a relative path."
    W012 = "The app's rows and the users lie in two databases."
    W013 = "The API hides other addresses of the project."

    @property
    def code(self) -> str:
        """The id as Django prints it."""
        return f"memory_app.{self.name}"

    def __call__(self, message: str, hint: str) -> CheckMessage:
        """Make the message."""
        kind = checks.Error if self.name.startswith("E") else checks.Warning
        return kind(message, hint=hint, id=self.code)


def register_all() -> None:
    """Register every check; only those that ask the database have the database tag, for Django seldom runs it."""
    register(check_settings, Tags.compatibility)
    register(check_processes, Tags.compatibility)
    register(check_folders, Tags.security)
    register(check_broker, Tags.compatibility)
    register(check_addresses, Tags.urls)
    register(check_deployment, Tags.compatibility, deploy=True)
    register(check_database, Tags.database)


def check_settings(**others: Any) -> list[CheckMessage]:
    """E001-E005, E010, E012, E013, W012."""
    return list(_settings())


def _settings() -> Iterator[CheckMessage]:
    if not settings.USE_TZ:
        yield Id.E010("USE_TZ is off, and memories have instants.", "Set USE_TZ = True.")
    yield from _vendor()
    yield from _owners()
    near = [name for name in _NEAR_MISSES if hasattr(settings, name)]
    if near and not hasattr(settings, conf.NAME):
        yield Id.E004(
            f"The settings have {near[0]}, and no {conf.NAME}.", f"Rename {near[0]} to {conf.NAME}."
        )
        return
    given = getattr(settings, conf.NAME, {})
    if not isinstance(given, Mapping):
        yield Id.E002(f"{conf.NAME} is a {type(given).__name__}.", "Make it a dict, see docs/settings.md.")
        return
    unknown = {key: failure for key in given if (failure := unknown_key(key, conf.known_keys()))}
    for failure in unknown.values():
        yield Id.E001(
            f"{conf.NAME}: {failure}.", "Correct or remove the key; docs/settings.md lists them all."
        )
    try:
        read = AppSettings.from_mapping({key: value for key, value in given.items() if key not in unknown})
        yield from _embedding(read)
        yield from _locks(read)
    except MissingForMode as error:
        hint = f"Set {' and '.join(error.keys)}, or choose another mode." if given else _BEGINNING
        yield Id.E005(f"{conf.NAME}: {error}.", hint)
    except CharacterMemoryError as error:
        yield Id.E002(f"{conf.NAME}: {error}.", "docs/settings.md says what the value may be.")
        return
    yield from _api()


def _vendor() -> Iterator[CheckMessage]:
    alias = _alias()
    if alias in connections and (vendor := connections[alias].vendor) not in ("sqlite", "postgresql"):
        yield Id.E013(
            f"The app's rows go to {alias!r}, which is {vendor}; it speaks to SQLite and PostgreSQL only.",
            "Let DATABASE_ROUTERS send memory_app and the users to one of those.",
        )


def _owners() -> Iterator[CheckMessage]:
    from memory_app.models import MemoryCollection

    users: Any = MemoryCollection._meta.get_field("owner").related_model
    if isinstance(users, str):
        return  # its app is not installed, as Django's own checks say
    alias = router.db_for_write(users)
    if alias != _alias():
        yield Id.W012(
            f"The app's rows go to {_alias()!r} and users to {alias!r}; rows name their owners.",
            "Let DATABASE_ROUTERS send memory_app where the users are, or have the users' tables in both.",
        )


def _embedding(read: AppSettings) -> Iterator[CheckMessage]:
    path = read.embedding_provider_factory
    if path is None:
        read.core.require_embedding()
        provider = read.core.provider
        if provider in _OPTIONAL and find_spec(provider) is None:
            yield Id.E012(
                f"{conf.NAME}: the embedding provider is {provider}, which is not installed.",
                f"pip install 'django-character-memory[{provider}]', or choose another EMBEDDING_PROVIDER.",
            )
        return
    yield from _importable("EMBEDDING_PROVIDER_FACTORY", path)


def _importable(key: str, path: str) -> Iterator[CheckMessage]:
    try:
        found = import_string(path)
    except Exception as error:  # whatever the host's module raises on import
        yield Id.E003(
            f"{conf.NAME}[{key!r}]: {path!r} cannot be imported: {type(error).__name__}: {error}",
            "Name a function or class as `package.module.name`, importable where Django runs.",
        )
        return
    if not callable(found):
        yield Id.E003(
            f"{conf.NAME}[{key!r}]: {path!r} is a {type(found).__name__} and cannot be called.",
            "Name a function or class.",
        )


def _locks(read: AppSettings) -> Iterator[CheckMessage]:
    from memory_app import runtime

    if read.core.graph_store_mode != "service" or read.core.writer_lock_path:
        return
    database = connections[_alias()]
    if database.vendor != "postgresql" and runtime.lock_folder() is None:
        yield Id.E005(
            f"{conf.NAME}: GRAPH_STORE_MODE is service, and on {database.vendor} writers have no lock in common.",
            "Use PostgreSQL, or set WRITER_LOCK_PATH to a local folder if all processes run on one machine.",
        )


def _api() -> Iterator[CheckMessage]:
    from memory_app.api.options import ApiOptions

    try:
        options = ApiOptions.current()
    except (TypeError, AttributeError) as error:
        yield Id.E001(f"{error}.", "Correct or remove the key; docs/api.md lists them all.")
        return
    wrong = list(options.problems())
    for key, problem in wrong:
        yield Id.E002(f"{conf.NAME}['API'][{key!r}]: {problem}.", "docs/api.md says what the value may be.")
    if wrong:
        return
    named = (*options.authentication_classes, *options.window_algorithms.values())
    for path in (options.access_policy_class, *named):
        yield from _importable("API", path)


def check_processes(**others: Any) -> list[CheckMessage]:
    """E007, E008."""
    read = _read()
    if read is None or read.dispatch != "celery":
        return []
    if read.embedded:
        return [
            Id.E007(
                "DISPATCH is celery, and a store is embedded: the worker is another process and cannot open it.",
                "Set DISPATCH to thread, or GRAPH_STORE_MODE and VECTOR_STORE_MODE both to service.",
            )
        ]
    if find_spec("celery") is None:
        return [
            Id.E008("DISPATCH is celery, which is not installed.", "pip install celery, or set DISPATCH.")
        ]
    return []


def check_folders(**others: Any) -> list[CheckMessage]:
    """E009, E011, W003, W010, W011. Nothing is made for it."""
    return list(_folders())


def _folders() -> Iterator[CheckMessage]:
    read = _read()
    if read is None:
        return
    for key, path in embedded_folders(read).items():
        kind = mounts.file_system_of(path)
        if kind in mounts.NETWORK:
            yield Id.E009(
                f"{key} is {path}, on a network file system ({kind}): its locks do not hold, and stores break.",
                "Name a folder on a local disk, or use service mode.",
            )
        for name in ("MEDIA_ROOT", "STATIC_ROOT"):
            root = getattr(settings, name, None)
            if root and path.is_relative_to(Path(root).resolve()):
                yield Id.W003(
                    f"{key} is {path}, inside {name}: the web server may hand memories out as files.",
                    f"Name a folder outside {name}.",
                )
    for key, path in written_folders(read).items():
        named = getattr(read.core, key.lower())
        if not named.is_absolute():
            yield Id.W011(
                f"{key} is {named}, which is another folder wherever a process starts in another one.",
                f"Name it from the root, as BASE_DIR / {str(named)!r} does.",
            )
        if found := writable.in_the_way(path):
            yield Id.E011(
                f"{key} needs the folder {path}, and {found} is no folder.",
                f"Move {found} away, or let {key} name another place.",
            )
        elif found := writable.closed(path):
            yield Id.W010(
                f"{key} needs the folder {path}, and {found} cannot be written by user {os.geteuid()}.",
                f"Give {found} to the user who runs Django, or let {key} name another place; if Django runs as "
                "another user than this command, all is well.",
            )
    file = _statistics_file(read)
    if file and file.is_dir():
        yield Id.E011(
            f"RETRIEVAL_STATS_PATH is {file}, a folder.", "Name a file in it, such as statistics.sqlite3."
        )


def embedded_folders(read: AppSettings) -> dict[str, Path]:
    """Return the folders of the embedded stores by the key that names them."""
    core = read.core
    folders = {
        "OXIGRAPH_PATH": core.oxigraph_path if core.graph_store_mode == "persistent" else None,
        "VECTOR_STORE_PATH": core.vector_store_path if core.vector_store_mode == "embedded" else None,
    }
    return {key: path.resolve() for key, path in folders.items() if path is not None}


def written_folders(read: AppSettings) -> dict[str, Path]:
    """Return every folder that a process of the host writes, by the key that names it or a file in it."""
    core, folders = read.core, embedded_folders(read)
    if file := _statistics_file(read):
        folders["RETRIEVAL_STATS_PATH"] = file.parent
    if core.graph_store_mode == "service" and core.writer_lock_path:
        folders["WRITER_LOCK_PATH"] = core.writer_lock_path.resolve()
    return folders


def _statistics_file(read: AppSettings) -> Path | None:
    in_file = read.statistics == "core" and read.core.retrieval_stats_store_mode == "sqlite"
    return read.core.retrieval_stats_path.resolve() if in_file else None


def check_deployment(**others: Any) -> list[CheckMessage]:
    """W001, W002: right on a desk, seldom in production."""
    read = _read()
    if read is None or settings.DEBUG:
        return []
    found = []
    if read.core.graph_store_mode == "in_memory":
        found.append(
            Id.W002(
                "GRAPH_STORE_MODE is in_memory: everything is forgotten when the process ends.",
                "Set it to persistent or service.",
            )
        )
    if read.embedded:
        found.append(
            Id.W001(
                "A store is embedded: exactly one process may run, web server and workers included.",
                "Run one process with several threads, or set GRAPH_STORE_MODE and VECTOR_STORE_MODE to service.",
            )
        )
    return found


def check_broker(**others: Any) -> list[CheckMessage]:
    """W005. Celery is asked only where the host has loaded it."""
    read = _read()
    celery = sys.modules.get("celery")
    if read is None or read.dispatch != "celery" or celery is None:
        return []
    given = celery.current_app.conf
    if not str(given.broker_url or "").startswith(("redis", "sentinel")):
        return []
    visible = (given.broker_transport_options or {}).get("visibility_timeout", 3600)
    limit = given.task_time_limit or TASK_TIME_LIMIT
    if visible >= 2 * limit:
        return []
    return [
        Id.W005(
            f"Redis hands a task out again after {visible} s, and one may run for {limit} s.",
            f"Set visibility_timeout in the broker's transport options to {2 * limit} or more.",
        )
    ]


def check_addresses(**others: Any) -> list[CheckMessage]:
    """W013. An URLconf that cannot be loaded is told of by Django."""
    if not getattr(settings, "ROOT_URLCONF", None):
        return []
    return [
        Id.W013(
            f"The API is mounted at {prefix!r} and answers what begins so, {address!r} behind it too.",
            "Give the API a prefix that nothing else has, or put its include() last.",
        )
        for prefix, address in addresses.hidden(get_resolver().url_patterns)
    ]


def check_database(*, databases: Sequence[str] | None = None, **others: Any) -> list[CheckMessage]:
    """W008, W009."""
    alias = _alias()
    # `migrate` runs these checks first, and what it is about to do is no warning.
    if alias not in (databases or ()) or sys.argv[1:2] == ["migrate"]:
        return []
    return [*_locking(alias), *_migrations(alias)]


def _locking(alias: str) -> Iterator[CheckMessage]:
    read, database = _read(), connections[alias]
    if read and read.dispatch == "celery" and not database.features.has_select_for_update_skip_locked:
        yield Id.W008(
            f"{database.display_name} cannot skip locked rows: repair workers wait for each other.",
            "Use PostgreSQL where several processes run.",
        )


def _migrations(alias: str) -> Iterator[CheckMessage]:
    from django.db.migrations.executor import MigrationExecutor

    try:
        executor = MigrationExecutor(connections[alias])
        targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] == "memory_app"]
        waiting = [f"{step.app_label}.{step.name}" for step, _ in executor.migration_plan(targets)]
    except DatabaseError as error:
        yield Id.W009(f"The migrations applied to {alias!r} cannot be read: {error}", "Is the database up?")
        return
    except ValueError as error:  # a custom user's app without migrations, for example
        yield Id.W009(
            f"The migrations cannot be put in order: {error}.", "Run manage.py makemigrations first."
        )
        return
    if waiting:
        yield Id.W009(
            f"Not applied to {alias!r}: {', '.join(waiting)}.", f"Run manage.py migrate --database {alias}."
        )


def _read() -> AppSettings | None:
    """Return the settings, None where `check_settings` has already said what is wrong with them."""
    try:
        return AppSettings.from_mapping(conf.given_mapping())
    except (CharacterMemoryError, TypeError):
        return None


def _alias() -> str:
    from memory_app.models import MemoryCollection

    return str(router.db_for_write(MemoryCollection) or DEFAULT_DB_ALIAS)
