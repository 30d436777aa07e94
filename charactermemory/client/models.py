"""What the server answers that the core has no model for."""

from __future__ import annotations

from typing import Annotated

from charactermemory.domain.model import Listed, Model
from charactermemory.recall.render import LeftOut
from charactermemory.recall.roads.road import Degradation


class Prompt(Model):
    """What a situation brings to mind, as prompt text written by the server.

    Attributes:
        text: both blocks, the stable one first.
        stable: the block to place first.
        volatile: the block to place last.
        tokens: what both cost, estimated.
        left_out: the memories for which the budget had no room.
        degraded: what recall had to do without.
    """

    text: str
    stable: str
    volatile: str
    tokens: int
    left_out: Annotated[tuple[LeftOut, ...], Listed] = ()
    degraded: Annotated[tuple[Degradation, ...], Listed] = ()
