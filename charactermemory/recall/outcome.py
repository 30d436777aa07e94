"""What a retrieve returns."""

from __future__ import annotations

from charactermemory.domain.model import Model
from charactermemory.recall.pack import ContinuityContextPack
from charactermemory.recall.report import RetrievalRationale
from charactermemory.recall.trace import RetrievalTrace


class RetrievalOutcome(Model):
    """What a retrieve brings: the pack, why it is as it is, and, if asked, every step."""

    pack: ContinuityContextPack
    rationale: RetrievalRationale
    trace: RetrievalTrace | None = None
