"""Random sequences of deeds leave a memory as a plain model says, whatever happens in between."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given

from tests.properties import model
from tests.properties.playing import Act, Player, Weather
from tests.properties.sequences import fixed, play_in_memory, sequences
from tests.support.grounds import DiskGround

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("unhurried")]

SEQUENCES = 200
ON_DISK = 4

test_sequences_in_memory = fixed(SEQUENCES)(given(sequences)(play_in_memory))


@fixed(ON_DISK)
@given(acts=sequences)
def test_sequences_on_disk(acts: list[tuple[Act, Weather]], tmp_path_factory: pytest.TempPathFactory) -> None:
    Player(DiskGround(tmp_path_factory.mktemp("ground"))).play(acts)


def test_the_model_imports_nothing() -> None:
    assert model.__file__ is not None
    tree = ast.parse(Path(model.__file__).read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
