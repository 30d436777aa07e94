"""Every fault against every operation: what is critical raises and leaves nothing, what is derived is told and
repaired, and after that nothing differs.
"""

from __future__ import annotations

import pytest

from charactermemory.errors import CharacterMemoryError
from memory_app.models import RepairMarker
from tests.faults.faults import FAULTS, Fault
from tests.faults.world import OPERATIONS, Deployment, Operation

pytestmark = pytest.mark.long

CASES = [
    pytest.param(fault, id=name, marks=pytest.mark.django_db(transaction=fault.transactional))
    for name, fault in FAULTS.items()
]


@pytest.mark.parametrize("fault", CASES)
def test_a_fault_is_told_and_repaired(
    fault: Fault, deployment: Deployment, subtests: pytest.Subtests
) -> None:
    """Each operation meets the fault; all that is owed then is repaired together."""
    for name, act in OPERATIONS.items():
        with subtests.test(operation=name):
            if fault.critical:
                leaves_nothing(fault, act, deployment)
            else:
                tells(fault, act, deployment, hit=name in fault.hits)
    deployment.drain()
    assert (deployment.differences(), deployment.waiting()) == (0, 0)


def leaves_nothing(fault: Fault, act: Operation, deployment: Deployment) -> None:
    """The operation raises, nothing of it is stored anywhere, and it succeeds once the fault is over."""
    before = deployment.contents()
    with fault.during(deployment), pytest.raises(CharacterMemoryError):
        act(deployment.memory)
    assert deployment.contents() == before
    assert RepairMarker.objects.count() == 0
    assert act(deployment.memory).complete
    assert deployment.contents() != before


def tells(fault: Fault, act: Operation, deployment: Deployment, hit: bool) -> None:
    """The operation is stored; its outcome says what is missing, and a complete one misses nothing."""
    before, differences = deployment.contents()[0], deployment.differences()
    with fault.during(deployment):
        outcome = act(deployment.memory)
    assert outcome.complete is not hit, outcome
    assert bool(outcome.repair_needed or outcome.pending) is hit
    assert deployment.contents()[0] > before
    if not hit:
        assert deployment.differences() == differences
