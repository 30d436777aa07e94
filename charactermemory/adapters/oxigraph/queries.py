"""The query texts of the adapter: pure functions of the graph and of serialised terms (decisions "To R3").

Forms that stay flat from 1,000 to 100,000 objects, measured by `benchmarks/graph_queries.py`: VALUES joined
with one plain pattern, with a chain of them that starts at the bound end, or with a union of such in one GRAPH.
Several predicates of several subjects are asked for by VALUES crossed in a sub-select: joined directly, Oxigraph
scans by predicate (5.8 s at 60,000 objects against 10 ms), and a variable predicate alone would drag along every
link of a hub (50,000 links: 800 ms). Small numbers stand for subjects and predicates in the answers, since every
name in a row costs the engine a look-up (17 against 10 ms for 100 objects).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyoxigraph import Literal, NamedNode

from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.domain.kinds import RelationType, RetentionState

Numbered = Iterable[tuple[int, NamedNode]]
"""Nodes or predicates, and the numbers that stand for them in the answer."""

_ACTIVE = Literal(RetentionState.ACTIVE.value)
_SUPERSEDES = cm.RELATIONS[RelationType.SUPERSEDES]
_DERIVED_FROM = cm.RELATIONS[RelationType.DERIVED_FROM]
_OBSERVED_IN = cm.RELATIONS[RelationType.OBSERVED_IN]


def values(variable: str, terms: Iterable[NamedNode | Literal]) -> str:
    """Return a VALUES clause of one variable."""
    return f"VALUES ?{variable} {{ {' '.join(map(str, terms))} }}"


def numbered(variable: str, number: str, terms: Numbered) -> str:
    """Return a VALUES clause of terms and the numbers that stand for them."""
    rows = " ".join(f"({term} {value:d})" for value, term in terms)
    return f"VALUES (?{variable} ?{number}) {{ {rows} }}"


def crossed(graph: NamedNode, subjects: Numbered, predicates: Numbered) -> str:
    """Return the query for some predicates of some subjects: ?j subject, ?i predicate, ?o object."""
    asked = f"{numbered('s', 'j', subjects)} {numbered('p', 'i', predicates)}"
    cross = f"{{ SELECT ?s ?j ?p ?i WHERE {{ {asked} }} }}"
    return f"SELECT ?j ?i ?o WHERE {{ {cross} GRAPH {graph} {{ ?s ?p ?o }} }}"


ALL = "?s ?q ?o"
"""Branch of `met`: every triple of a subject. Passing over a subject costs a third of looking up each of its dozen
predicates (2.7 against 7.7 ms for 28 observations), but brings along every link that starts there."""


def field(predicate: NamedNode) -> str:
    """Return the branch of `met` for one predicate of a subject."""
    return f"?s {predicate} ?o BIND({predicate} AS ?q)"


def nested(predicate: NamedNode) -> str:
    """Return the branch of `met` for every triple of the nodes nested under a predicate of a subject."""
    return f"?s {predicate} ?n . ?n ?q ?o"


SUPPRESSED_BY = NamedNode(cm.VOCABULARY + "suppressedBy")
SUPERSEDED_BY = NamedNode(cm.VOCABULARY + "supersededBy")
"""What stands in answers for two predicates read from their other end; neither is stored."""
SUPPRESSION = f"?n {cm.SUPPRESSES} ?s . ?n {cm.AT} ?o BIND({SUPPRESSED_BY} AS ?q)"
"""Branch of `met`: ?n the events that suppressed a subject, ?o their times."""
SUCCESSION = f"?o {_SUPERSEDES} ?s BIND({SUPERSEDED_BY} AS ?q)"
"""Branch of `met`: the memories that supersede a subject."""


def met(graph: NamedNode, subjects: Numbered, branches: Iterable[str]) -> str:
    """Return the group of what branches find of some subjects: ?j subject, ?n other node, ?q predicate, ?o object.

    The triple is of ?n where it is bound, else of the subject. Every branch is walked for one subject after the
    other, so subjects are named once; a name in a query costs as much as a look-up in the graph (5 µs).
    """
    union = " UNION ".join(f"{{ {branch} }}" for branch in branches)
    return f"{{ {numbered('s', 'j', subjects)} GRAPH {graph} {{ {union} }} }}"


def snapshot(groups: Sequence[str], predicates: Numbered, limit: int | None) -> str:
    """Return the one query of several `met` groups, cut off at `limit` rows: ?k, ?v, ?n.

    ?k is the sum of the subject's and the predicate's number, ?v the object. Both are unbound where the predicate
    is another; such rows count all the same, but nobody looks their objects up.
    """
    cut = f" LIMIT {limit:d}" if limit is not None else ""
    found = f"{{ SELECT ?j ?n ?q ?o WHERE {{ {' UNION '.join(groups)} }}{cut} }}"
    known = f"OPTIONAL {{ {numbered('q', 'i', predicates)} }} BIND(?j + ?i AS ?k)"
    value = "BIND(IF(BOUND(?k), ?o, ?none) AS ?v)"
    return f"SELECT ?k ?v ?n WHERE {{ {found} {known} {value} }}"


def digests(graph: NamedNode, nodes: Iterable[NamedNode]) -> str:
    """Return the query for the nodes that are stored objects: ?s."""
    return f"SELECT ?s WHERE {{ {values('s', nodes)} GRAPH {graph} {{ ?s {cm.DIGEST} ?d }} }}"


def objects_of(graph: NamedNode, nodes: Iterable[NamedNode], predicate: NamedNode) -> str:
    """Return the query for what `predicate` of the nodes points at: ?s, ?o."""
    return f"SELECT ?s ?o WHERE {{ {values('s', nodes)} GRAPH {graph} {{ ?s {predicate} ?o }} }}"


def subjects_of(graph: NamedNode, nodes: Iterable[NamedNode], predicate: NamedNode) -> str:
    """Return the query for what points at the nodes by `predicate`: ?s, ?o."""
    return f"SELECT ?s ?o WHERE {{ {values('o', nodes)} GRAPH {graph} {{ ?s {predicate} ?o }} }}"


def sourced(graph: NamedNode, nodes: Sequence[NamedNode]) -> str:
    """Return the query for what is connected to the nodes by derived_from, in either direction: ?m."""
    clause = values("s", nodes)
    return (
        f"SELECT DISTINCT ?m WHERE {{ {{ {clause} GRAPH {graph} {{ ?m {_DERIVED_FROM} ?s }} }} UNION "
        f"{{ {clause} GRAPH {graph} {{ ?s {_DERIVED_FROM} ?m }} }} }}"
    )


def observed(graph: NamedNode, episodes: Iterable[NamedNode]) -> str:
    """Return the query for what is observed in the episodes, with its own place: ?s, ?t."""
    chain = f"?s {_OBSERVED_IN} ?e . ?s {cm.TURN} ?t"
    return f"SELECT ?s ?t ?e WHERE {{ {values('e', episodes)} GRAPH {graph} {{ {chain} }} }}"


def _current_assertions(graph: NamedNode, clause: str, chain: str) -> str:
    """Match assertions ?a of current beliefs ?m, starting from what `clause` binds."""
    lifecycle = (
        f"FILTER NOT EXISTS {{ GRAPH {graph} {{ ?e {cm.SUPPRESSES} ?m }} }} "
        f"FILTER NOT EXISTS {{ GRAPH {graph} {{ ?x {_SUPERSEDES} ?m }} }}"
    )
    belief = f"?m {cm.ASSERTION} ?a . ?m {cm.RETENTION_STATE} ?r"
    return f"{clause} GRAPH {graph} {{ {chain} . {belief} }} FILTER(?r = {_ACTIVE}) {lifecycle}"


def bearers(graph: NamedNode, names: Iterable[str]) -> str:
    """Return the query for the stored notions that current beliefs know by normalised names: ?name, ?s."""
    chain = f"?a {cm.NORMALIZED_NAME} ?name . ?a {cm.SUBJECT} ?s . ?s {cm.DIGEST} ?d"
    where = _current_assertions(graph, values("name", map(Literal, names)), chain)
    return f"SELECT DISTINCT ?name ?s WHERE {{ {where} }}"


def names_given(graph: NamedNode, limit: int) -> str:
    """Return the query for the normalised name of every assertion, at most `limit`: ?name."""
    return f"SELECT ?name WHERE {{ GRAPH {graph} {{ ?a {cm.NORMALIZED_NAME} ?name }} }} LIMIT {limit:d}"


def spellings(graph: NamedNode, notions: Iterable[NamedNode]) -> str:
    """Return the query for the names under which current beliefs know notions: ?s, ?name."""
    chain = f"?a {cm.SUBJECT} ?s . ?a {cm.NAME} ?name"
    where = _current_assertions(graph, values("s", notions), chain)
    return f"SELECT DISTINCT ?s ?name WHERE {{ {where} }}"


def carriers(graph: NamedNode, raw_refs: Iterable[Literal]) -> str:
    """Return the query for one observation that carries each raw reference: ?ref, ?s.

    One, for a whole transcript may have been imported under one reference.
    """
    groups = (
        f"{{ SELECT ?ref ?s WHERE {{ {values('ref', [raw_ref])} GRAPH {graph} "
        f"{{ ?s {cm.RAW_REF} ?ref . ?s {cm.TURN} ?t }} }} LIMIT 1 }}"
        for raw_ref in raw_refs
    )
    return f"SELECT ?ref ?s WHERE {{ {' UNION '.join(groups)} }}"


def last_token(graph: NamedNode, volume: NamedNode) -> str:
    """Return the query for the greatest token of one volume: ?last; unbound for none."""
    return f"SELECT (MAX(?t) AS ?last) WHERE {{ GRAPH {graph} {{ {volume} {cm.LISTS} ?t }} }}"


def volumes(graph: NamedNode) -> str:
    """Return the query for the numbers of all volumes of receipts: ?v."""
    return f"SELECT ?v WHERE {{ GRAPH {graph} {{ ?x {cm.VOLUME_NUMBER} ?v }} }}"


def volume_tokens(graph: NamedNode, volume: NamedNode) -> str:
    """Return the query for the tokens that one volume lists: ?t."""
    return f"SELECT ?t WHERE {{ GRAPH {graph} {{ {volume} {cm.LISTS} ?t }} }}"


def top_volume(graph: NamedNode, known: NamedNode) -> str:
    """Return the query for the greatest volume number, the greatest fence, and the greatest token of a volume that
    may still be the last: ?v, ?f, ?last; unbound for none.
    """
    volume = f"SELECT (MAX(?n) AS ?v) WHERE {{ GRAPH {graph} {{ ?x {cm.VOLUME_NUMBER} ?n }} }}"
    chain = f"?x {cm.TYPE} {cm.FENCE_CLASS} . ?x {cm.TOKEN} ?n"
    fence = f"SELECT (MAX(?n) AS ?f) WHERE {{ GRAPH {graph} {{ {chain} }} }}"
    last = last_token(graph, known)
    return f"SELECT ?v ?f ?last WHERE {{ {{ {volume} }} UNION {{ {fence} }} UNION {{ {last} }} }}"
