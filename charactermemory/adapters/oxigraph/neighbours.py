"""The edges around nodes, read in one batch of limited patterns and known until they change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from pyoxigraph import NamedNode, Triple

from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.answers import found_ref
from charactermemory.adapters.oxigraph.connection import Connection, Pattern
from charactermemory.adapters.oxigraph.kept import Crowds, Current
from charactermemory.adapters.oxigraph.mapping import STATED_ENDS
from charactermemory.adapters.oxigraph.terms import ref_iri, ref_of, turn_iri
from charactermemory.domain.kinds import RelationType
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge, Neighbourhood, Spot

NEIGHBOURHOODS = 8_192
"""Neighbourhoods kept of a collection, 1 to 2 kB each; one recall reads about thirty."""
KEPT_EDGES = 64
"""Edges of a node that is kept at most; an episode of a long evening has as many."""

_RELATIONS = frozenset(cm.RELATIONS.values())
_ANY = (frozenset(ObjectType), frozenset(ObjectType))

Directions = dict[ObjectType, list[tuple[RelationType, bool]]]
"""By type of node, the relations it may have and whether they go out from it."""


class _Possible(NamedTuple):
    """The directions of some relations, as they are while the store has this version."""

    version: int | None
    relations: tuple[RelationType, ...]
    directions: Directions


class _Asked(NamedTuple):
    """What was asked of a node."""

    relations: tuple[RelationType, ...]
    cap: int
    sparing: tuple[RelationType, ...] = ()


class Neighbours:
    """Reads neighbourhoods of one collection's graph, and keeps those met last.

    A node's edges change by a commit that brings one of them, and by nothing else. So what was read holds over
    the commits that are known for what they bring, but for the nodes that they touch.
    """

    def __init__(self, connection: Connection, graph: NamedNode) -> None:
        self._connection = connection
        self._graph = graph
        self._crowds = Crowds()
        self._possible = _Possible(None, (), {})
        self._kept: Current[MemoryObjectRef, tuple[_Asked, Neighbourhood]] = Current(NEIGHBOURHOODS)

    def committed(self, triples: Iterable[Triple], version: int | None) -> None:
        """Take note of what one commit has added, alone, as `version` of the store; None if not alone."""
        edges = [triple for triple in triples if triple.predicate in _RELATIONS]
        touched = {ref_of(end) for edge in edges for end in (edge.subject, edge.object)}
        self._kept.carry(version, touched)

    def read(
        self,
        nodes: Collection[MemoryObjectRef],
        relations: Collection[RelationType],
        cap: int,
        turns: Collection[Spot],
        sparing: Collection[tuple[MemoryObjectRef, RelationType]],
    ) -> dict[MemoryObjectRef, Neighbourhood]:
        """See `GraphStore.neighbours`."""
        version = self._connection.version()
        distinct = tuple(dict.fromkeys(relations))
        spared: defaultdict[MemoryObjectRef, tuple[RelationType, ...]] = defaultdict(tuple)
        for ref, relation in sparing:
            spared[ref] += (relation,)
        wanted = dict.fromkeys(nodes, _Asked(distinct, cap))
        wanted |= {ref: _Asked(distinct, cap, spared[ref]) for ref in wanted if ref in spared}
        known = {
            ref: around
            for ref, (asked, around) in self._kept.among(wanted, version).items()
            if asked == wanted[ref]
        }
        possible = self._possible_directions(distinct, version)
        crowded = self._crowds.exceeding(cap, sparing)
        batch = _Batch(possible, cap, spared, crowded)
        for ref in wanted:
            if ref not in known:
                batch.ask(ref)
        patterns = batch.patterns
        # Two rather than one: what was written twice under one position is read the same way every time.
        standing = [Pattern(None, cm.TURN, turn_iri(episode.id, position), 2) for episode, position in turns]
        answers = self._connection.match(self._graph, patterns + standing) if patterns or standing else []
        fresh = batch.collect(answers[: len(patterns)])
        self._crowds.note(cap, batch.crowded)
        self._kept.keep(
            {ref: (wanted[ref], around) for ref, around in fresh.items() if len(around.edges) <= KEPT_EDGES},
            version,
        )
        found = {ref: known[ref] if ref in known else fresh[ref] for ref in wanted}
        return found | _with_turns(found, turns, answers[len(patterns) :])

    def _possible_directions(self, relations: tuple[RelationType, ...], version: int | None) -> Directions:
        """Return, by the type of a node, the relations it may have and whether they go out from it.

        What no triple has is not asked for, nor, where no link asserts a relation, what its fields rule out.
        That is looked at again when the store has changed.
        """
        last = self._possible
        if version is None or (version, relations) != last[:2]:
            last = self._possible = _Possible(version, relations, self._directions(relations))
        return last.directions

    def _directions(self, relations: Sequence[RelationType]) -> Directions:
        anywhere = {relation: Pattern(None, cm.RELATIONS[relation], None, 1) for relation in relations}
        linked = {
            relation: Pattern(None, cm.RELATION_OF_LINK, cm.RELATIONS[relation], 1)
            for relation in anywhere
            if relation in STATED_ENDS
        }
        found = self._connection.occurring(self._graph, [*anywhere.values(), *linked.values()])
        possible: Directions = {kind: [] for kind in ObjectType}
        for relation, pattern in anywhere.items():
            if pattern not in found:
                continue
            free = relation not in linked or linked[relation] in found
            sources, targets = _ANY if free else STATED_ENDS[relation]
            for kind, directions in possible.items():
                if kind in sources:
                    directions.append((relation, True))
                if kind in targets:
                    directions.append((relation, False))
        return possible


class _Batch:
    """The patterns for the edges around some nodes, and how their answers are put together."""

    def __init__(
        self,
        possible: Directions,
        cap: int,
        spared: Mapping[MemoryObjectRef, Collection[RelationType]],
        crowded: set[tuple[MemoryObjectRef, RelationType]],
    ) -> None:
        self._possible = possible
        self._cap = cap
        self._spared = spared
        self._asked: list[tuple[MemoryObjectRef, list[tuple[RelationType, bool]]]] = []
        self.crowded = crowded
        self.patterns: list[Pattern] = []

    def ask(self, ref: MemoryObjectRef) -> None:
        """Add a node; a crowd is passed over if it is spared and known to be one."""
        node, limit = ref_iri(ref), self._cap + 1
        directions = self._possible[ref.object_type]
        if ref in self._spared:
            directions = [item for item in directions if item[1] or (ref, item[0]) not in self.crowded]
        for relation, outgoing in directions:
            predicate = cm.RELATIONS[relation]
            self.patterns.append(
                Pattern(node, predicate, None, limit) if outgoing else Pattern(None, predicate, node, limit)
            )
        self._asked.append((ref, directions))

    def collect(self, answers: Iterable[Sequence[Triple]]) -> dict[MemoryObjectRef, Neighbourhood]:
        """Return the neighbourhoods of the nodes, by the answers to the patterns."""
        found: dict[MemoryObjectRef, Neighbourhood] = {}
        rest = iter(answers)
        for ref, directions in self._asked:
            edges: list[Edge] = []
            capped: list[tuple[RelationType, bool]] = []
            spared = self._spared.get(ref, ())
            for relation, outgoing in directions:
                triples = next(rest)
                if not triples:
                    continue
                if len(triples) > self._cap:
                    capped.append((relation, outgoing))
                    if not outgoing and relation in spared:
                        self.crowded.add((ref, relation))
                        continue
                    triples = triples[: self._cap]
                if outgoing:
                    edges += [Edge(ref, relation, found_ref(triple.object)) for triple in triples]
                else:
                    edges += [Edge(found_ref(triple.subject), relation, ref) for triple in triples]
            capped += [(relation, False) for relation in spared if (ref, relation) in self.crowded]
            found[ref] = Neighbourhood(tuple(edges), frozenset(capped))
        return found


def _with_turns(
    found: Mapping[MemoryObjectRef, Neighbourhood],
    turns: Iterable[Spot],
    answers: Iterable[Sequence[Triple]],
) -> dict[MemoryObjectRef, Neighbourhood]:
    """Return the episodes of which turns were found, with these and their edges."""
    standing: defaultdict[MemoryObjectRef, dict[int, MemoryObjectRef]] = defaultdict(dict)
    for (episode, position), triples in zip(turns, answers, strict=True):
        if triples:
            standing[episode][position] = min(found_ref(triple.subject) for triple in triples)
    return {
        ref: Neighbourhood(
            tuple(
                dict.fromkeys(
                    (*found[ref].edges, *(Edge(one, RelationType.OBSERVED_IN, ref) for one in said.values()))
                )
            ),
            found[ref].capped,
            said,
        )
        for ref, said in standing.items()
    }
