"""Recall: bringing back what a character in a situation would have in mind, and saying why."""

from charactermemory.recall.context import (
    CandidateLimits,
    GraphLimits,
    RetrievalContext,
    SectionLimits,
)
from charactermemory.recall.knobs import FanoutSpec, RecallKnobs
from charactermemory.recall.outcome import RetrievalOutcome
from charactermemory.recall.pack import Admission, ContinuityContextPack, DerivedEntry
from charactermemory.recall.report import RetrievalRationale, RetrievalTelemetry
from charactermemory.recall.retrieve import retrieve
from charactermemory.recall.trace import RetrievalTrace

__all__ = [
    "Admission",
    "CandidateLimits",
    "ContinuityContextPack",
    "DerivedEntry",
    "FanoutSpec",
    "GraphLimits",
    "RecallKnobs",
    "RetrievalContext",
    "RetrievalOutcome",
    "RetrievalRationale",
    "RetrievalTelemetry",
    "RetrievalTrace",
    "SectionLimits",
    "retrieve",
]
