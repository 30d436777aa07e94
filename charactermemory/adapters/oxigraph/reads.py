"""Every read of the graph port (ports/graph.py), each with a known number of round trips.

One round trip: `read` (whatever the number of references; none for what is known to stand), `neighbours`. One
per 500 given references: the others. Two: `head`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TypeVar

from pyoxigraph import Literal, NamedNode, Triple

from charactermemory.adapters.handles import fork_count
from charactermemory.adapters.oxigraph import queries, request
from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.answers import found_ref, label
from charactermemory.adapters.oxigraph.connection import Connection, Pattern, Row, Term
from charactermemory.adapters.oxigraph.contents import CAPACITY, Content, Contents, is_short
from charactermemory.adapters.oxigraph.given_names import GivenNames
from charactermemory.adapters.oxigraph.kept import Current, Places
from charactermemory.adapters.oxigraph.neighbours import Neighbours
from charactermemory.adapters.oxigraph.terms import (
    edge_iri,
    object_iri,
    place_of,
    ref_iri,
    turn_iri,
)
from charactermemory.adapters.resting import OpenStores
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecycleEvent, Stored
from charactermemory.domain.objects import DerivedMemory, MemoryLink, MemoryObject, Observation
from charactermemory.errors import GraphQueryError
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge, Neighbourhood, Place, Spot

CHUNK = 500
"""References named in one query where an answer may be put together from several."""

Item = TypeVar("Item")

STANDING = CAPACITY
"""Objects of which the lifecycle is kept beside the content, about 600 bytes each."""
_OBSERVATIONS = f"{cm.BASE}{ObjectType.OBSERVATION.value}:"


def chunks(items: Iterable[Item], size: int = CHUNK) -> Iterator[list[Item]]:
    """Cut `items` into lists of at most `size`; none for no items."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def sorted_ids(ids: Iterable[MemoryId]) -> tuple[MemoryId, ...]:
    """Return distinct ids in their order."""
    return tuple(sorted(set(ids), key=lambda item: item.int))


MOST_KEEPING = 8
"""Stores of a process that keep what they met: one that all its ten thousand objects are recalled of takes some
45 MB, a larger one up to 60."""
_keeping = OpenStores(MOST_KEEPING)


class Reads:
    """The reads of one collection's graph over a connection, which keep what they met last.

    Nothing kept can be stale. A graph only grows, so a content under its digest never changes, nor does where an
    observation stands. Lifecycle, edges and given names hold at one version of the store, and at the next one
    where a commit of ours made it alone: what it touched is then read again (`Current`). Where others write too
    there are no versions, and none of these is kept. For a graph that went back there is `forget`.
    """

    def __init__(self, connection: Connection, graph: NamedNode) -> None:
        self._connection = connection
        self._graph = graph
        self.forget()

    def forget(self) -> None:
        """Know nothing any more, as where the graph went back: some of what was met is stored no longer."""
        _keeping.closed(self)
        self._forks = fork_count()
        self._contents = Contents()
        self._standing: Current[MemoryObjectRef, Stored] = Current(STANDING)
        self._places = Places()
        self._given_names = GivenNames(self._connection, self._graph)
        self._neighbours = Neighbours(self._connection, self._graph)

    rest = forget
    """See `Restful`."""

    def _use(self) -> None:
        """Take note that this is used, so that those used longest ago forget if too many keep something."""
        if self._forks != fork_count():
            self.forget()  # a thread that is not here may have held its locks
        _keeping.used(self)
        _keeping.relieve()

    def committed(
        self,
        contents: Sequence[Content],
        event: LifecycleEvent | None,
        triples: Sequence[Triple],
        version: int | None,
    ) -> None:
        """Take note of what the holder of the writer lock has just added, alone, as `version` of the store.

        The guard found nothing against it. So it stands as it was written, and what stood before still does, but
        for what the commit itself suppressed or superseded. Where others had a hand in it (`version` None), what
        stands is read.
        """
        self._use()
        self._learn(contents)
        self._given_names.committed(triples, version)
        self._neighbours.committed(triples, version)
        ended = set(event.suppresses if event is not None else ())
        ended.update(chain(*(_superseded(item.authored) for item in contents)))
        self._standing.carry(version, ended)
        fresh = (Stored(object=item.authored, digest=item.digest) for item in contents)
        self._keep_standing(
            {item.object.ref: item for item in fresh if item.object.ref not in ended}, version
        )

    def read(self, refs: Collection[MemoryObjectRef], anew: bool = False) -> dict[MemoryObjectRef, Stored]:
        """See `GraphStore.read`; what is not known to stand as it did is read by one query.

        All is of one moment: that of the query, or the store has not changed between the two.
        """
        self._use()
        ordered = list(dict.fromkeys(refs))
        version = None if anew else self._connection.version()
        standing = self._standing.among(ordered, version)
        rest = [ref for ref in ordered if ref not in standing]
        found = self._stored(rest, anew)
        if standing and rest and self._connection.version() != version:
            standing, found = {}, self._stored(ordered, anew)
        self._keep_standing(found, version)
        found |= standing
        return {ref: found[ref] for ref in ordered if ref in found}

    def _keep_standing(self, found: Mapping[MemoryObjectRef, Stored], version: int | None) -> None:
        self._standing.keep({ref: item for ref, item in found.items() if is_short(item.object)}, version)

    def _stored(self, refs: Sequence[MemoryObjectRef], anew: bool) -> dict[MemoryObjectRef, Stored]:
        """Read objects by one query.

        The digest is always asked for, so a second one under an id raises `StoredConflict` also where the
        content is known. Not seen without `anew` is a value that was changed under a digest that stands.
        """
        if not refs:
            return {}
        known = {} if anew else self._contents.among(refs)
        snapshot = request.snapshot(self._connection, self._graph, refs, known)
        if snapshot.contradicts(known):  # the graph went back, and on from there
            self.forget()
            return self._stored(refs, anew=True)
        stored = ((ref, snapshot.stored(ref, known.get(ref))) for ref in refs)
        found = {ref: item for ref, item in stored if item is not None}
        self._learn(
            [
                Content(item.authored or item.object, item.digest)
                for ref, item in found.items()
                if ref not in known
            ]
        )
        return found

    def existing(self, refs: Collection[MemoryObjectRef], anew: bool = False) -> set[MemoryObjectRef]:
        """See `GraphStore.existing`; what is known to be stored is not asked for, the guard decides."""
        self._use()
        known = set() if anew else self._contents.stored(refs)
        nodes = {ref_iri(ref): ref for ref in refs if ref not in known}
        found = {
            nodes[row[0]]  # type: ignore[index]
            for chunk in chunks(nodes)
            for row in self._connection.query(queries.digests(self._graph, chunk))
        }
        self._contents.met(found)
        return known | found

    def notions_known_as(self, names: Collection[str]) -> dict[str, tuple[MemoryId, ...]]:
        """See `GraphStore.notions_known_as`; what is known to be nobody's name is not asked for."""
        asked = list(dict.fromkeys(name for name in names if name))
        self._use()
        version = self._connection.version()
        if version is None:
            return self._bearers(asked)
        found = self._bearers(self._given_names.among(asked, version))
        if self._connection.version() != version:  # a commit meanwhile may have renamed somebody
            found = self._bearers(asked)
        return found

    def _bearers(self, names: Sequence[str]) -> dict[str, tuple[MemoryId, ...]]:
        found: defaultdict[str, set[MemoryId]] = defaultdict(set)
        for chunk in chunks(names):
            for name, notion in self._connection.query(queries.bearers(self._graph, chunk)):
                if isinstance(name, Literal):
                    found[name.value].add(found_ref(notion).id)
        return {name: sorted_ids(ids) for name, ids in found.items()}

    def names_of(self, notions: Collection[MemoryId]) -> dict[MemoryId, tuple[str, ...]]:
        """See `GraphStore.names_of`."""
        found: defaultdict[MemoryId, set[str]] = defaultdict(set)
        for chunk in chunks(dict.fromkeys(notions)):
            nodes = [object_iri(ObjectType.ENTITY, notion) for notion in chunk]
            for notion, name in self._connection.query(queries.spellings(self._graph, nodes)):
                if isinstance(name, Literal):
                    found[found_ref(notion).id].add(name.value)
        return {notion: tuple(sorted(names)) for notion, names in found.items()}

    def observed_from(self, raw_refs: Collection[str]) -> set[str]:
        """See `GraphStore.observed_from`."""
        literals = [Literal(raw_ref) for raw_ref in dict.fromkeys(raw_refs)]
        rows = self._rows(queries.carriers(self._graph, chunk) for chunk in chunks(literals))
        return {
            ref.value
            for ref, subject in rows
            if isinstance(ref, Literal)
            and isinstance(subject, NamedNode)
            and subject.value.startswith(_OBSERVATIONS)
        }

    def memories_from(
        self, episode_ids: Collection[MemoryId], observation_ids: Collection[MemoryId]
    ) -> tuple[MemoryId, ...]:
        """See `GraphStore.memories_from`."""
        sources = [object_iri(ObjectType.EPISODE, item) for item in episode_ids]
        sources += [object_iri(ObjectType.OBSERVATION, item) for item in observation_ids]
        rows = self._rows(queries.sourced(self._graph, chunk) for chunk in chunks(dict.fromkeys(sources)))
        return _ids_of_type((row[0] for row in rows), ObjectType.DERIVED_MEMORY)

    def observations_of(self, episode_ids: Collection[MemoryId]) -> tuple[MemoryId, ...]:
        """See `GraphStore.observations_of`; an observation only linked to an episode is not its own."""
        episodes = {ref_iri(ref): ref for ref in map(_episode, episode_ids)}
        rows = self._rows(queries.observed(self._graph, chunk) for chunk in chunks(episodes))
        own = (row[0] for row in rows if row[1] is not None and _spot(row[1])[0] == episodes.get(row[2]))  # type: ignore[arg-type]
        return _ids_of_type(own, ObjectType.OBSERVATION)

    def members_of(self, thread_id: MemoryId) -> tuple[MemoryId, ...]:
        """See `GraphStore.members_of`."""
        thread = object_iri(ObjectType.MEMORY_THREAD, thread_id)
        rows = self._connection.query(queries.subjects_of(self._graph, [thread], cm.OWN_THREAD))
        return _ids_of_type((row[0] for row in rows), ObjectType.DERIVED_MEMORY)

    def neighbours(
        self,
        nodes: Collection[MemoryObjectRef],
        relations: Collection[RelationType],
        cap: int,
        turns: Collection[Spot] = (),
        sparing: Collection[tuple[MemoryObjectRef, RelationType]] = (),
    ) -> dict[MemoryObjectRef, Neighbourhood]:
        """See `GraphStore.neighbours`."""
        self._use()
        return self._neighbours.read(nodes, relations, cap, turns, sparing)

    def places(
        self, observations: Collection[MemoryObjectRef], speakers: bool = False
    ) -> dict[MemoryObjectRef, Place]:
        """See `GraphStore.places`; one round trip for those whose place is not known yet: it never changes."""
        self._use()
        known = self._places.among(observations, speakers)
        asked = [ref for ref in dict.fromkeys(observations) if ref not in known]
        if not asked:
            return known
        nodes = list(map(ref_iri, asked))
        # The turns first: of an observation that is being written meanwhile, nothing is found or all.
        predicates = [cm.TURN, cm.SPEAKER] if speakers else [cm.TURN]
        patterns = [Pattern(node, predicate, None) for predicate in predicates for node in nodes]
        answers = self._connection.match(self._graph, patterns)
        turns, spoken = answers[: len(asked)], answers[len(asked) :] or [[]] * len(asked)
        found = {
            ref: Place(*_spot(turn[0].object), found_ref(said[0].object) if said else None)
            for ref, turn, said in zip(asked, turns, spoken, strict=True)
            if turn
        }
        self._places.keep(found, speakers)
        return known | found

    def _learn(self, contents: Sequence[Content]) -> None:
        """Keep what was written or read, and where the observations among it stand."""
        self._contents.keep(contents)
        said = (item.authored for item in contents if isinstance(item.authored, Observation))
        self._places.keep({item.ref: _standing_of(item) for item in said}, speakers=True)

    def turns(self, spots: Collection[Spot]) -> dict[Spot, MemoryObjectRef]:
        """See `GraphStore.turns`."""
        nodes = [turn_iri(episode.id, position) for episode, position in dict.fromkeys(spots)]
        rows = self._rows(queries.subjects_of(self._graph, chunk, cm.TURN) for chunk in chunks(nodes))
        found: dict[Spot, MemoryObjectRef] = {}
        for observation, turn in rows:
            spot, said = _spot(turn), found_ref(observation)
            found[spot] = min(found.get(spot, said), said)
        return found

    def link_ids(self, edges: Collection[Edge]) -> dict[Edge, tuple[MemoryId, ...]]:
        """See `GraphStore.link_ids`."""
        nodes = {edge_iri(edge.source, edge.relation, edge.target): edge for edge in edges}
        found: dict[Edge, set[MemoryId]] = {edge: set() for edge in edges}
        for link, node in self._rows(
            queries.subjects_of(self._graph, chunk, cm.EDGE) for chunk in chunks(nodes)
        ):
            found[nodes[node]].add(found_ref(link).id)  # type: ignore[index]
        return {edge: sorted_ids(ids) for edge, ids in found.items()}

    def _rows(self, texts: Iterable[str]) -> Iterator[Row]:
        for text in texts:
            yield from self._connection.query(text)


def _superseded(item: MemoryObject) -> tuple[MemoryObjectRef, ...]:
    if isinstance(item, MemoryLink):
        return (item.target,) if item.relation is RelationType.SUPERSEDES else ()
    if isinstance(item, DerivedMemory):
        return tuple(MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, old) for old in item.supersedes)
    return ()


def _spot(term: Term | None) -> Spot:
    try:
        episode_id, position = place_of(term)  # type: ignore[arg-type]
    except ValueError:
        raise GraphQueryError(kind="selection", detail=f"not a turn: {label(term)}") from None
    return _episode(episode_id), position


def _episode(episode_id: MemoryId) -> MemoryObjectRef:
    return MemoryObjectRef.of(ObjectType.EPISODE, episode_id)


def _standing_of(said: Observation) -> Place:
    speaker = said.speaker_entity_id
    return Place(
        _episode(said.episode_id),
        said.position,
        None if speaker is None else MemoryObjectRef.of(ObjectType.ENTITY, speaker),
    )


def _ids_of_type(terms: Iterable[Term | None], object_type: ObjectType) -> tuple[MemoryId, ...]:
    refs = map(found_ref, terms)
    return sorted_ids(ref.id for ref in refs if ref.object_type is object_type)
