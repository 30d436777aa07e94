"""The property is worth something: it fails for every planted fault, and for the reason one expects."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.properties.faults import FAULTS, Fault
from tests.properties.playing import Violation
from tests.properties.sequences import fixed, play_in_memory, sequences

pytestmark = pytest.mark.usefixtures("unhurried")

SEQUENCES = 200
"""As many as hold without a fault; most faults need a few."""

play = fixed(SEQUENCES, shrink=False)(given(sequences)(play_in_memory))


@pytest.mark.parametrize(("fault", "seen"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_a_planted_fault_is_found(fault: Fault, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation, match=seen):
        play()
