"""Drafts of corrections and forgets, and what a test asks of the stores around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from charactermemory.domain.kinds import DerivedType
from charactermemory.domain.provenance import ExternalSourceReference, SourceProvenanceReference
from charactermemory.ids import MemoryObjectRef
from charactermemory.remember.drafts import DerivedMemoryDraft
from charactermemory.revise.drafts import (
    CorrectionTarget,
    CorrectMemoryDraft,
    ForgetMemoryDraft,
    ReplacementDerivedMemoryDraft,
)
from tests.support.plans import belief, uid
from tests.support.rig import Rig

ORIGIN = SourceProvenanceReference(external_refs=(ExternalSourceReference.source("app:settings"),))


def sourced(
    number: int,
    text: str,
    *,
    episodes: tuple[int, ...] = (),
    observations: tuple[int, ...] = (),
    **fields: Any,
) -> DerivedMemoryDraft:
    """An ordinary memory that rests on these experiences."""
    return belief(
        number,
        text,
        given_by_application=False,
        derived_from_episode_ids=tuple(uid(n) for n in episodes),
        derived_from_observation_ids=tuple(uid(n) for n in observations),
        **fields,
    )


def replacement(text: str, **fields: Any) -> ReplacementDerivedMemoryDraft:
    """A claim that takes the place of another; it needs a source or a declaration from the caller."""
    values = {"derived_type": DerivedType.CLAIM, "correction_origin_provenance": ORIGIN}
    return ReplacementDerivedMemoryDraft(text=text, **(values | fields))


def correction(
    *numbers: int,
    rationale: str = "it is otherwise",
    replacements: tuple[ReplacementDerivedMemoryDraft, ...] = (),
    **fields: Any,
) -> CorrectMemoryDraft:
    """A correction of these derived memories on an external word."""
    values = {
        "targets": tuple(CorrectionTarget.derived_memory(uid(n)) for n in numbers),
        "correction_origin": ORIGIN,
        "rationale": rationale,
        "replacement_derived_memories": replacements,
    }
    return CorrectMemoryDraft(**(values | fields))


def forgetting(*targets: MemoryObjectRef, **fields: Any) -> ForgetMemoryDraft:
    """A forget of these targets."""
    return ForgetMemoryDraft(targets=targets, **({"rationale": "asked to"} | fields))


@contextmanager
def nothing_written(rig: Rig) -> Iterator[None]:
    """Whatever happens inside leaves all three stores as they were, and sends none of them a write."""
    before = rig.contents()
    watched = (rig.connection, rig.vectors, rig.statistics)
    for port in watched:
        port.calls.clear()
    yield
    sent = {name for port in watched for name in port.names()}
    assert not sent & {"update", "write", "flush", "apply", "advance", "rebuild"}
    assert rig.contents() == before


def lines_of(rig: Rig, ref: MemoryObjectRef) -> list[bytes]:
    """Return the stored lines whose subject is this object or a node below it."""
    start = f"<urn:charactermemory:{ref.object_type.value}:{ref.id}".encode()
    return [line for line in rig.triples() if line.startswith((start + b">", start + b":"))]


def lines_naming(rig: Rig, *words: str) -> list[bytes]:
    """Return the stored lines that hold all of these words."""
    return [line for line in rig.triples() if all(word.encode() in line for word in words)]
