"""Whether the memory of this deployment is well: alive, ready, caught up. No secret, path or memory text."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import DatabaseError
from django.db.models import Count, Max, Min, Q

from charactermemory import CharacterMemoryError
from charactermemory.domain.counted import counted
from charactermemory.ports.stores import Stores
from charactermemory.upkeep.verify import went_back
from memory_app import runtime, writable
from memory_app.checks import embedded_folders
from memory_app.conf import app_settings
from memory_app.errors import CollectionArchived
from memory_app.models import MemoryCollection, RepairMarker
from memory_app.repairs import breaker
from memory_app.repairs.clock import database_now

BACKLOG_SECONDS = 900.0
"""A repair that is open for longer than this makes the deployment unwell (field reports C04)."""


ROOM_BYTES = 256 * 2**20
"""Less room on the disk of an embedded store makes the deployment unwell. An index is mapped files that take their
room as they fill, some 140 MB of a new one; where there is none left the system ends the process (SIGBUS)."""


@dataclass(frozen=True)
class Check:
    """One answer; `critical` ones decide about readiness, the others only about being well."""

    ok: bool
    detail: str = ""
    value: float | None = None
    critical: bool = False


@dataclass(frozen=True)
class Health:
    """All answers by name."""

    checks: dict[str, Check]

    @property
    def ready(self) -> bool:
        """Whether requests can be served."""
        return all(check.ok for check in self.checks.values() if check.critical)

    @property
    def well(self) -> bool:
        """Whether nothing asks for an operator."""
        return all(check.ok for check in self.checks.values())

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "ready": self.ready,
            "well": self.well,
            "checks": {name: asdict(check) for name, check in self.checks.items()},
        }


def report() -> Health:
    """Ask the database and the memories that this process has open.

    None is opened for it, but one that the process was asked for and could not open is tried again.
    """
    try:
        now = database_now()
        checks = {"database": Check(True, critical=True), **_repairs(now), **_breakers(now), **_disks()}
        recorded = dict(MemoryCollection.objects.values_list("name", "embedding_fingerprint"))
    except DatabaseError as error:
        return Health({"database": Check(False, type(error).__name__, critical=True)})
    for collection in runtime.open_collections():
        checks |= _collection(collection, recorded.get(collection, ""))
    for collection in runtime.refused_collections():
        checks |= _refused(collection, recorded.get(collection, ""))
    return Health(checks)


def _repairs(now: datetime) -> dict[str, Check]:
    is_open = Q(status__in=RepairMarker.OPEN)
    row = RepairMarker.objects.aggregate(
        open=Count("id", filter=is_open),
        oldest=Min("created_at", filter=is_open),
        dead=Count("id", filter=Q(status=RepairMarker.Status.DEAD)),
        lapsed=Count("id", filter=Q(status=RepairMarker.Status.CLAIMED, lease_expires_at__lte=now)),
        last=Max("completed_at", filter=Q(status=RepairMarker.Status.SUCCEEDED)),
    )
    age = (now - row["oldest"]).total_seconds() if row["oldest"] else 0.0
    last = row["last"].isoformat() if row["last"] else "none yet"
    return {
        "repairs.oldest_seconds": Check(age <= BACKLOG_SECONDS, f"{row['open']} open", age),
        "repairs.dead": Check(not row["dead"], f"{row['dead']} given up", row["dead"]),
        "repairs.lapsed_leases": Check(True, f"{row['lapsed']} lapsed, last success: {last}", row["lapsed"]),
    }


def _breakers(now: datetime) -> dict[str, Check]:
    return {
        f"breaker.{store}": Check(state == "closed", state) for store, state in breaker.states(now).items()
    }


def _disks() -> dict[str, Check]:
    try:
        folders = embedded_folders(app_settings())
    except CharacterMemoryError as error:
        return {"settings": Check(False, error.code, critical=True)}
    checks = {}
    for key, folder in folders.items():
        try:
            free = shutil.disk_usage(writable.nearest(folder)).free
        except OSError as error:
            checks[f"disk.{key}"] = Check(False, type(error).__name__)
        else:
            checks[f"disk.{key}"] = Check(free >= ROOM_BYTES, f"{free // 2**20} MiB free", free)
    return checks


def _collection(name: str, recorded: str) -> dict[str, Check]:
    try:
        stores = runtime.get_memory(name).stores
        head = stores.graph.head()
    except CollectionArchived:
        return {}  # since it was opened; nobody is to use it
    except CharacterMemoryError as error:
        return {f"collection.{name}.graph": Check(False, error.code, critical=True)}
    checks = {f"collection.{name}.graph": Check(True, "", head, critical=True)}
    fingerprint = stores.embedder.fingerprint()
    # The row may name more than the provider's part: the surfaces' version is behind it.
    fits = not recorded or recorded.startswith(fingerprint)
    checks[f"collection.{name}.fingerprint"] = Check(fits, "" if fits else f"{recorded} is not {fingerprint}")
    seen = 0
    for part, store in (("vectors", stores.vectors), ("statistics", stores.statistics)):
        try:
            cursor = store.cursor()
            seen = max(seen, cursor.applied, cursor.high)
            behind = max(head - cursor.applied, 0)
            checks[f"collection.{name}.{part}"] = Check(True, f"{counted(behind, 'commit')} behind", behind)
        except CharacterMemoryError as error:
            checks[f"collection.{name}.{part}"] = Check(False, error.code)
    checks[f"collection.{name}.commits"] = _commits(stores, seen > head)
    return checks


def _refused(name: str, recorded: str) -> dict[str, Check]:
    """Try to open it; no server, or another process in the way, is in everybody's, a damaged folder in its own."""
    try:
        runtime.get_memory(name)
    except CollectionArchived:
        return {}
    except CharacterMemoryError as error:
        return {f"collection.{name}.opened": Check(False, error.code, critical=error.retryable)}
    return _collection(name, recorded)


def _commits(stores: Stores, doubtful: bool) -> Check:
    """Look whether the graph went back; only where a store saw more of it, for that takes several reads."""
    gone = went_back(stores) if doubtful else None
    if gone is None:
        return Check(True)
    return Check(False, f"graph_went_back: they end at {gone.head}, and {gone.seen} was seen")
