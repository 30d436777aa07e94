"""Times keep their instant, and a scene's its offset (memory-core §1.3, DESIGN R9)."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from charactermemory.domain.scene import Scene
from charactermemory.errors import DeterministicIdCollision
from charactermemory.testing.builders import NOON, episode, observation
from charactermemory.testing.graph_contract import put
from tests.graph.stores import Place

JAPAN = timezone(timedelta(hours=9))


@pytest.mark.spec("core-13")
def test_times_are_kept_as_instants_and_a_scene_with_its_offset(place: Place) -> None:
    naive = datetime(2026, 3, 14, 21, 0)
    for build in (
        lambda: episode(created_at=naive),
        lambda: episode(scene=Scene.at(naive)),
        lambda: observation(episode(), observed_at=naive),
    ):
        with pytest.raises(ValidationError):
            build()
    there = naive.replace(tzinfo=JAPAN)
    happened = episode(created_at=there, scene=Scene.at(there))
    said = observation(happened, created_at=there, observed_at=there)
    with closing(place.open()) as store:
        put(store, happened, said)
        stored = store.read([happened.ref, said.ref], anew=True)
        read, heard = stored[happened.ref].object, stored[said.ref].object
        for value in (read.created_at, heard.created_at, heard.observed_at):  # type: ignore[union-attr]
            assert value is not None
            assert (value, value.utcoffset()) == (NOON, timedelta())
        time = read.scene.time  # type: ignore[union-attr]
        assert (time, time.utcoffset()) == (NOON, timedelta(hours=9))
        with pytest.raises(DeterministicIdCollision):
            put(store, happened.replace(scene=Scene.at(NOON)))
        assert store.read([happened.ref], anew=True)[happened.ref].object == happened
