"""The whole production row: web, worker, beat, broker, database, graph and vectors, each a process of its own."""

from __future__ import annotations

import json

import pytest

from tests.support.services import Services, eventually
from tests.topology.committers import CONTESTED_FROM
from tests.topology.rest import Rest

pytestmark = pytest.mark.long

PROCESSES, COMMITS, THREADS, CONTESTED = 4, 50, 5, 10


def test_four_processes_write_one_collection_and_nothing_is_lost_or_doubled(services: Services) -> None:
    """And of several contents under one id exactly one is stored."""
    numbers = map(str, (PROCESSES, COMMITS, THREADS, CONTESTED))
    found = json.loads(services.run("tests.topology.committers", "race", *numbers))
    assert [process["complete"] for process in found] == [COMMITS] * PROCESSES
    won = sorted(index for process in found for index in process["won"])
    assert won == list(range(CONTESTED_FROM, CONTESTED_FROM + CONTESTED))
    told = services.verified("race")
    (counted,) = told["collections"]
    assert told["differences"] == 0
    assert counted["objects"] == 2 * PROCESSES * COMMITS + CONTESTED
    # An observation is a point, and so is an episode with a summary.
    assert counted["points"] == PROCESSES * COMMITS + CONTESTED


def test_what_one_process_remembers_another_recalls(rest: Rest, services: Services) -> None:
    said = rest.remember("The harmonium lacks its low F sharp.")
    assert said["complete"] and said["repair_needed"] == []
    for _ in range(8):  # both gunicorn workers are asked
        pack = rest.call("POST", "retrieve", {"topic": "harmonium"})["pack"]
        assert [item["text"] for item in pack["salient_observations"]] == [
            "The harmonium lacks its low F sharp."
        ]


def test_an_outage_of_the_vector_server_is_told_and_repaired(rest: Rest, services: Services) -> None:
    services.stub.stop()
    try:
        said = [rest.remember(f"The tide of day {day} was low.") for day in range(3)]
        assert [(outcome["complete"], bool(outcome["repair_needed"])) for outcome in said] == [
            (False, True)
        ] * 3
        recalled = rest.call("POST", "retrieve", {"topic": "harmonium"})
        assert recalled["rationale"]["degraded"]
        assert sum(rest.open_repairs().values()) >= 3
    finally:
        services.stub.start()
    eventually("the repairs are done", lambda: not any(rest.open_repairs().values()))
    assert services.verified("mees")["differences"] == 0
    pack = rest.call("POST", "retrieve", {"topic": "tide"})["pack"]
    assert "The tide of day 2 was low." in [item["text"] for item in pack["salient_observations"]]


def test_a_worker_killed_in_the_middle_of_repairs_loses_none(rest: Rest, services: Services) -> None:
    services.stub.stop()
    for day in range(12):
        rest.remember(f"The wind of day {day} came from the west.")
    # The first repair gets through, and proves that the server is back; the others hang in the next call.
    with services.stub.troubled("stall", "upserts", after=1):
        services.stub.start()
        eventually("a worker is in the middle of repairs", lambda: rest.open_repairs()["claimed"] > 1)
        services.kill("first")
    left = rest.open_repairs()
    assert left["claimed"] > 1
    services.worker("second")
    eventually("another worker does the rest", lambda: not any(rest.open_repairs().values()))
    assert rest.call("GET", "repairs/summary")["dead"] == 0
    assert services.verified("mees")["differences"] == 0


def test_a_broker_that_is_away_costs_no_write_and_no_repair(rest: Rest, services: Services) -> None:
    services.redis.kill()
    with services.stub.troubled("fail", "upserts"):
        assert not rest.remember("The lighthouse was dark.")["complete"]
    assert rest.remember("The lighthouse was lit again.")["complete"]
    assert sum(rest.open_repairs().values()) >= 1
    services.redis.start()

    def repaired() -> bool:
        services.restart_ended()
        return not any(rest.open_repairs().values())

    eventually("the beat has it repaired", repaired)
    found = rest.call("POST", "retrieve", {"topic": "lighthouse dark"})["pack"]["salient_observations"]
    assert found[0]["text"] == "The lighthouse was dark."
