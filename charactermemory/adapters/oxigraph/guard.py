"""The guarded insert of one commit, and why a guard would refuse it (consistency.md R4).

The guard is evaluated in the same snapshot as the insert. Each check runs over a list of terms and asks for
every one of them singly: `FILTER NOT EXISTS { VALUES … FILTER EXISTS { … } }`. Measured for 3 / 200 / 500
planned ids at 100,000 objects: 0.9 / 12 / 34 ms; one filter per id 0.8 / 312 / 2,500 ms; VALUES joined with
the pattern inside the filter, which scans by predicate, 250 / 2,400 / 5,900 ms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pyoxigraph import Literal, NamedNode, Triple

from charactermemory.adapters.oxigraph import queries
from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.answers import found_number
from charactermemory.adapters.oxigraph.connection import STORE_NAME, Row
from charactermemory.adapters.oxigraph.terms import place_of, ref_iri, ref_of, turn_iri
from charactermemory.domain.digest import digest
from charactermemory.domain.kinds import RetentionState
from charactermemory.domain.objects import MemoryObject, Observation
from charactermemory.errors import (
    CharacterMemoryError,
    DeterministicIdCollision,
    DuplicatePosition,
    StoreUnavailable,
    UnknownObjectRef,
)
from charactermemory.ports.graph import WriteBatch


@dataclass(slots=True)
class Planned:
    """What one batch claims: contents under ids, that they are not suppressed, places, and what must exist."""

    token: int
    items: dict[NamedNode, MemoryObject]
    digests: dict[NamedNode, str]
    active: list[NamedNode]
    turns: dict[NamedNode, NamedNode]
    requires: dict[NamedNode, list[str]]

    @classmethod
    def of(cls, token: int, batch: WriteBatch) -> Planned:
        """Collect the claims of a batch.

        Raises:
            DeterministicIdCollision: one id is planned with two contents.
            DuplicatePosition: two observations of the batch are at one place.
        """
        planned = cls(token, {}, {}, [], {}, {})
        for item in batch.objects:
            planned._add(item)
        roles: defaultdict[NamedNode, list[str]] = defaultdict(list)
        for role, ref in batch.requires:
            node = ref_iri(ref)
            if node not in planned.items:
                roles[node].append(role)
        planned.requires = dict(roles)
        return planned

    def _add(self, item: MemoryObject) -> None:
        node, content = ref_iri(item.ref), digest(item)
        if node in self.items:
            if self.digests[node] != content:
                raise DeterministicIdCollision(object=item.ref)
            return
        self.items[node] = item
        self.digests[node] = content
        if getattr(item, "retention_state", None) is RetentionState.ACTIVE:
            self.active.append(node)
        if isinstance(item, Observation):
            place = turn_iri(item.episode_id, item.position)
            if self.turns.setdefault(place, node) != node:
                raise DuplicatePosition(episode_id=item.episode_id, position=item.position)


@dataclass(slots=True)
class Found:
    """What the graph holds against, or of, a plan."""

    digests: defaultdict[NamedNode, set[str]] = field(default_factory=lambda: defaultdict(set))
    suppressed: set[NamedNode] = field(default_factory=set)
    holders: defaultdict[NamedNode, set[NamedNode]] = field(default_factory=lambda: defaultdict(set))
    moved: bool = False
    fence: int = 0


def state_query(graph: NamedNode, planned: Planned) -> str:
    """Return the query for everything that decides about a plan: ?s ?digest ?event ?turn ?moved ?fence."""
    groups = [
        f"{{ GRAPH {graph} {{ {graph} {cm.MOVED_TO} ?moved }} }}",
        f"{{ GRAPH {graph} {{ {_fence('fence')} }} FILTER(?fence > {planned.token:d}) }}",
    ]
    if known := [*planned.digests, *planned.requires]:
        groups.append(f"{{ {queries.values('s', known)} GRAPH {graph} {{ ?s {cm.DIGEST} ?digest }} }}")
    if planned.active:
        events = f"GRAPH {graph} {{ ?event {cm.SUPPRESSES} ?s }}"
        groups.append(f"{{ {queries.values('s', planned.active)} {events} }}")
    if planned.turns:
        groups.append(f"{{ {queries.values('turn', planned.turns)} GRAPH {graph} {{ ?s {cm.TURN} ?turn }} }}")
    return f"SELECT ?s ?digest ?event ?turn ?moved ?fence WHERE {{ {' UNION '.join(groups)} }}"


def found(rows: Iterable[Row]) -> Found:
    """Put the rows of `state_query` together."""
    state = Found()
    for subject, content, event, turn, moved, fence in rows:
        if moved is not None:
            state.moved = True
        elif fence is not None:
            state.fence = max(state.fence, found_number(fence))
        elif not isinstance(subject, NamedNode):
            continue
        elif isinstance(content, Literal):
            state.digests[subject].add(content.value)
        elif event is not None:
            state.suppressed.add(subject)
        elif isinstance(turn, NamedNode):
            state.holders[turn].add(subject)
    return state


def collision(planned: Planned, state: Found) -> DeterministicIdCollision | None:
    """Return the first planned id that is stored with another content, or was suppressed since."""
    for node, item in planned.items.items():
        if state.digests.get(node, set()) - {planned.digests[node]} or node in state.suppressed:
            return DeterministicIdCollision(object=item.ref)
    return None


def refusal(planned: Planned, state: Found) -> CharacterMemoryError | None:
    """Return why the guard refuses this plan in this state, None if it does not."""
    if state.moved:
        return StoreUnavailable(store=STORE_NAME, detail="the collection was moved; open it at its new place")
    if state.fence:
        detail = f"the right to write as {planned.token} was taken over by {state.fence}"
        return StoreUnavailable(store=STORE_NAME, detail=detail)
    if clash := collision(planned, state):
        return clash
    missing = [
        (role, ref_of(node))
        for node, roles in planned.requires.items()
        if node not in state.digests
        for role in roles
    ]
    if missing:
        return UnknownObjectRef(references=tuple(missing))
    for turn, observation in planned.turns.items():
        if state.holders.get(turn, set()) - {observation}:
            episode_id, position = place_of(turn)
            return DuplicatePosition(episode_id=episode_id, position=position)
    return None


def insert(graph: NamedNode, planned: Planned, triples: Iterable[Triple]) -> str:
    """Return the update that adds `triples` if nothing stands against the plan."""
    body = " .\n".join(map(str, triples))
    checks = "\n".join(_checks(graph, planned))
    return f"INSERT {{ GRAPH {graph} {{\n{body}\n}} }} WHERE {{\n{checks}\n}}"


def _checks(graph: NamedNode, planned: Planned) -> Iterator[str]:
    fence = f"{_fence('n')} FILTER(?n > {planned.token:d})"
    yield f"FILTER NOT EXISTS {{ GRAPH {graph} {{ {fence} }} }}"
    yield f"FILTER NOT EXISTS {{ GRAPH {graph} {{ {graph} {cm.MOVED_TO} ?m }} }}"
    if planned.digests:
        pairs = ((node, Literal(content)) for node, content in planned.digests.items())
        other = f"GRAPH {graph} {{ ?s {cm.DIGEST} ?x }} FILTER(?x != ?d)"
        yield _none(_pairs("s", "d", pairs), f"FILTER EXISTS {{ {other} }}")
    if planned.active:
        event = f"GRAPH {graph} {{ ?e {cm.SUPPRESSES} ?s }}"
        yield _none(queries.values("s", planned.active), f"FILTER EXISTS {{ {event} }}")
    if planned.requires:
        stored = f"GRAPH {graph} {{ ?s {cm.DIGEST} ?x }}"
        yield _none(queries.values("s", planned.requires), f"FILTER NOT EXISTS {{ {stored} }}")
    if planned.turns:
        holder = f"GRAPH {graph} {{ ?o {cm.TURN} ?t }} FILTER(?o != ?s)"
        yield _none(_pairs("t", "s", planned.turns.items()), f"FILTER EXISTS {{ {holder} }}")


def _none(clause: str, fault: str) -> str:
    return f"FILTER NOT EXISTS {{ {clause} {fault} }}"


def _pairs(first: str, second: str, rows: Iterable[tuple[NamedNode, NamedNode | Literal]]) -> str:
    return f"VALUES (?{first} ?{second}) {{ {' '.join(f'({a} {b})' for a, b in rows)} }}"


def _fence(variable: str) -> str:
    return f"?f {cm.TYPE} {cm.FENCE_CLASS} . ?f {cm.TOKEN} ?{variable}"
