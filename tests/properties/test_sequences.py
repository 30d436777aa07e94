"""Random sequences of deeds leave a memory as a plain model says, whatever happens in between."""

from __future__ import annotations

import ast
from pathlib import Path

from hypothesis import given

from tests.properties import model
from tests.properties.playing import Act, Player, Weather
from tests.properties.sequences import LEAST_STEPS, fixed, sequences
from tests.support.grounds import DiskGround, MemoryGround

SEQUENCES = 200


@fixed(SEQUENCES)
@given(sequences)
def test_sequences_in_memory(acts: list[tuple[Act, Weather]]) -> None:
    assert len(acts) >= LEAST_STEPS
    Player(MemoryGround()).play(acts)
