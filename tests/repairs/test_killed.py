"""A worker killed in the middle of its claim: the lease ends, another finishes, nothing is lost or doubled."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from memory_app.models import RepairMarker
from memory_app.repairs import queue
from memory_app.repairs.worker import RunReport
from tests.repairs.world import COLLECTION, POLICY, Clock, Provider, World, failure
from tests.support.plans import episode, episode_ref, plan

WORKER = textwrap.dedent(
    """
    import json, os, signal, sys
    import django
    from django.conf import settings

    database, mapping, now = json.loads(sys.argv[1])
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    settings.DATABASES["default"]["NAME"] = database
    settings.CHARACTER_MEMORY = mapping
    django.setup()

    from datetime import datetime
    from tests.repairs.world import POLICY, Provider
    from charactermemory import CharacterMemory
    from memory_app.repairs.worker import Worker

    class Killed(Provider):
        def bulk_generate_embeddings(self, texts):
            if self.calls == 1:  # one row was repaired and settled, the rest is claimed
                os.kill(os.getpid(), signal.SIGKILL)
            return super().bulk_generate_embeddings(texts)

    memory = CharacterMemory.open(mapping, "ada", embedding_provider=Killed())
    Worker(lambda name: memory, policy=POLICY, clock=lambda: datetime.fromisoformat(now)).run()
    """
)


@pytest.mark.django_db(transaction=True)
def test_the_rows_of_a_killed_worker_come_back_when_its_lease_ends(
    tmp_path: Path, settings: Any, clock: Clock, monkeypatch: Any
) -> None:
    mapping = {
        "OXIGRAPH_PATH": str(tmp_path / "oxigraph"),
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
        "EMBEDDING_PROVIDER": "hashing",
    }
    if connections["default"].vendor != "sqlite":
        pytest.skip("the killed process is given a database file")
    monkeypatch.setattr("memory_app.repairs.dispatch._configured", lambda: "none")
    monkeypatch.setattr("memory_app.observed.database_now", clock)
    world = World(mapping, COLLECTION, Provider(), clock)
    world.provider.error = OSError("down")
    for number in range(1, 7):
        world.memory.commit(plan(episode(number, f"day {number}")))
    world.memory.close()
    connections["default"].close()

    import json

    name = str(connections["default"].settings_dict["NAME"])
    argument = json.dumps([name, mapping, clock.now.isoformat()])
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", WORKER, argument], cwd=root, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert RepairMarker.objects.filter(status="succeeded").count() == 1
    assert RepairMarker.objects.filter(status="claimed").count() == 5

    world = World(mapping, COLLECTION, Provider(), clock)
    try:
        clock.forward(POLICY.lease_seconds - 1)
        assert world.run() == RunReport(), "until the lease ends the rows are the dead worker's"
        clock.forward(1)
        assert world.run() == RunReport(claimed=5, succeeded=5)
        assert world.differences() == 0
        assert world.memory.stores.vectors.count() == 6
    finally:
        world.memory.close()


def test_a_late_worker_that_comes_back_to_life_settles_nothing(world: World, clock: Clock) -> None:
    world.memory.commit(plan(episode(1, "day one")))
    queue.record(COLLECTION, [failure(episode_ref(1))], "commit", clock.now, POLICY)
    asleep = queue.claim("asleep", clock.now, 5, POLICY)
    clock.forward(POLICY.lease_seconds)
    assert world.run() == RunReport(claimed=1, succeeded=1)
    queue.failed(asleep, asleep.markers[0], failure(episode_ref(1)), clock.now + timedelta(1), clock.now)
    assert world.statuses() == {"succeeded": 1}
