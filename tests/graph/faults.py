"""Faults to be planted in what the store keeps of its reads, each as small as the mistake it stands for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pytest

from charactermemory.adapters.oxigraph import reads
from charactermemory.adapters.oxigraph.connection import Triple
from charactermemory.adapters.oxigraph.contents import Content
from charactermemory.adapters.oxigraph.given_names import GivenNames, _Given
from charactermemory.adapters.oxigraph.kept import Crowds, Current, Places
from charactermemory.adapters.oxigraph.neighbours import Neighbours, _Asked
from charactermemory.adapters.oxigraph.reads import Reads
from charactermemory.domain.lifecycle import LifecycleEvent, Stored
from charactermemory.ids import MemoryId, MemoryObjectRef

Fault = Callable[[pytest.MonkeyPatch], None]


def touched_is_kept(patch: pytest.MonkeyPatch) -> None:
    """The edges of nodes that a commit touched stay as they were."""

    def faulty(self: Neighbours, triples: Iterable[Triple], version: int | None) -> None:
        self._kept.carry(version, ())

    patch.setattr(Neighbours, "committed", faulty)


def forgotten_stands(patch: pytest.MonkeyPatch) -> None:
    """What a commit suppressed stays as it was."""
    committed = Reads.committed

    def faulty(
        self: Reads,
        contents: Sequence[Content],
        event: LifecycleEvent | None,
        triples: Sequence[Triple],
        version: int | None,
    ) -> None:
        committed(self, contents, None, triples, version)

    patch.setattr(Reads, "committed", faulty)


def superseded_stands(patch: pytest.MonkeyPatch) -> None:
    """What a commit superseded stays as it was."""
    patch.setattr(reads, "_superseded", lambda item: ())


def commits_of_others_unseen(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks whether the store is at another version."""

    def faulty(self: Current[Any, Any], version: int) -> None:
        self._version = version

    patch.setattr(Current, "_move_to", faulty)


def commits_of_others_passed_over(patch: pytest.MonkeyPatch) -> None:
    """A commit carries what is kept over those before it that were not told of."""

    def faulty(self: Current[Any, Any], version: int | None, touched: Iterable[Any]) -> None:
        if version is not None:
            self._kept.drop(touched)
            self._version = version

    patch.setattr(Current, "carry", faulty)


def read_before_kept_after(patch: pytest.MonkeyPatch) -> None:
    """What was read at one version is kept at the next."""

    def faulty(self: Current[Any, Any], values: Mapping[Any, Any], version: int | None) -> None:
        if version is not None:
            self._kept.keep(values)

    patch.setattr(Current, "keep", faulty)


def two_moments(patch: pytest.MonkeyPatch) -> None:
    """What stood when a read began is told beside what was read later."""

    def faulty(
        self: Reads, refs: Collection[MemoryObjectRef], anew: bool = False
    ) -> dict[MemoryObjectRef, Stored]:
        version = self._connection.version()
        standing = self._standing.among(refs, version)
        found = self._stored([ref for ref in refs if ref not in standing], anew)
        self._standing.keep(found, version)
        return found | standing

    patch.setattr(Reads, "read", faulty)


def renamed_meanwhile(patch: pytest.MonkeyPatch) -> None:
    """The bearers of names that are known are read, though a commit may have brought other names."""

    def faulty(self: Reads, names: Collection[str]) -> dict[str, tuple[MemoryId, ...]]:
        version = self._connection.version()
        asked = list(names) if version is None else self._given_names.among(names, version)
        return self._bearers(asked)

    patch.setattr(Reads, "notions_known_as", faulty)


def new_names_unseen(patch: pytest.MonkeyPatch) -> None:
    """The names that a commit gives are not added to those that are known."""

    def faulty(self: GivenNames, triples: Iterable[Triple], version: int | None) -> None:
        if version is not None and self._given.version == version - 1:
            self._given = _Given(version, self._given.names)

    patch.setattr(GivenNames, "committed", faulty)


def asked_otherwise(patch: pytest.MonkeyPatch) -> None:
    """What was read with one cap answers a question with another."""
    patch.setattr(_Asked, "__eq__", lambda one, other: True)


def small_crowds(patch: pytest.MonkeyPatch) -> None:
    """What is more than a few passes for more than any number."""

    def faulty(self: Crowds, number: int, crowds: Iterable[Any]) -> set[Any]:
        return set(self.among(crowds))

    patch.setattr(Crowds, "exceeding", faulty)


def nobody_spoke(patch: pytest.MonkeyPatch) -> None:
    """Where speakers were not asked for, none is taken to have spoken."""

    keep = Places.keep

    def faulty(self: Places, found: Mapping[MemoryId, Any], speakers: bool) -> None:
        keep(self, found, speakers=True)

    patch.setattr(Places, "keep", faulty)
