"""Beliefs: what a character itself holds true of a notion (memory-core §3.6)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from charactermemory.domain.model import Model, Name
from charactermemory.domain.names import normalize_name
from charactermemory.errors import (
    AssertionSubjectNotInMemory,
    EmptyAssertionName,
    GivenWithoutSubject,
    GivenWithSources,
)
from charactermemory.ids import MemoryId


class BeliefAssertion(Model):
    """The character's own commitment about one subject. The closed vocabulary has one predicate: known_as."""

    subject: MemoryId
    predicate: Literal["known_as"] = "known_as"
    name: Name

    @classmethod
    def known_as(cls, subject: MemoryId, name: str) -> BeliefAssertion:
        """Assert that `subject` is known as `name`."""
        return cls(subject=subject, name=name)

    @property
    def normalized_name(self) -> str:
        """The form under which the name is looked up."""
        return normalize_name(self.name)


def check_belief(
    subjects: Collection[MemoryId],
    has_sources: bool,
    given_by_application: bool,
    assertions: Sequence[BeliefAssertion],
) -> None:
    """Judge grounding and assertions, in the order in which they are told.

    Raises:
        BeliefValidationError: the first rule broken.
    """
    if given_by_application and has_sources:
        raise GivenWithSources()
    if given_by_application and not subjects:
        raise GivenWithoutSubject()
    for assertion in assertions:
        if assertion.subject not in subjects:
            raise AssertionSubjectNotInMemory(assertion.subject)
        if not assertion.normalized_name:
            raise EmptyAssertionName(assertion.subject)
