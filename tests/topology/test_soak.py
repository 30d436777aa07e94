"""Misfortunes one after another while somebody remembers; what was acknowledged is there at the end, once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.support.services import Services, eventually
from tests.topology.rest import Rest

SECONDS = 60.0
PAUSE_SECONDS = 1.5
"""Between two misfortunes."""


class Misfortunes:
    """Takes servers and workers away and gives them back, as chance has it."""

    def __init__(self, services: Services, rng: random.Random) -> None:
        self.services, self.rng = services, rng
        self.worker = "first"
        self.away: list[Callable[[], None]] = []

    def next(self) -> None:
        """Give back what is away, or let something happen."""
        if self.away:
            self.restore()
        else:
            getattr(self, self.rng.choice(["kill_worker", "vectors", "broker", "graph", "vectors"]))()

    def kill_worker(self) -> None:
        self.services.kill(self.worker)
        self.worker = f"worker-{self.rng.getrandbits(32)}"
        self.services.worker(self.worker)

    def vectors(self) -> None:
        self.services.stub.stop()
        self.away.append(self.services.stub.start)

    def broker(self) -> None:
        self.services.redis.kill()
        self.away.append(self.services.redis.start)

    def graph(self) -> None:
        self.services.graph.kill()
        self.away.append(self.services.graph.start)

    def restore(self) -> None:
        """Give back what is away."""
        for start in self.away:
            start()
        self.away.clear()


@pytest.mark.slow
def test_what_was_acknowledged_survives_a_minute_of_misfortunes(
    rest: Rest, services: Services, tmp_path: Path
) -> None:
    misfortunes = Misfortunes(services, random.Random(7))
    acknowledged: list[str] = []
    refused = 0
    ends, next_at = time.monotonic() + SECONDS, time.monotonic() + PAUSE_SECONDS
    number = 0
    while time.monotonic() < ends:
        number += 1
        text = f"Entry {number:05} of the logbook."
        try:
            answer = rest.send("POST", "remember", {"content": text})
        except httpx.TransportError:
            refused += 1
        else:
            assert answer.status_code in (201, 502, 503), answer.text
            acknowledged += [text] if answer.status_code == 201 else []
            refused += answer.status_code != 201
        if time.monotonic() >= next_at:
            misfortunes.next()
            next_at = time.monotonic() + PAUSE_SECONDS
    misfortunes.restore()
    assert acknowledged and refused

    def repaired() -> bool:
        services.restart_ended()
        return not any(rest.open_repairs().values())

    eventually("the repairs are done", repaired, 180)
    # What nobody queued, since its process died before it could, the next sweep finds.
    eventually("nothing differs", lambda: services.differences("mees") == 0, 180)
    services.manage("memory_export", str(tmp_path), "--collection", "mees")
    stored = (tmp_path / "mees.trig").read_text(encoding="utf-8")
    assert [text for text in acknowledged if stored.count(text) != 1] == []
