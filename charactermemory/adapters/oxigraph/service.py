"""The service connection: the SPARQL 1.1 Protocol over HTTP, for `oxigraph serve` or a conforming endpoint.

What matters is to know what became of an update: refused before it was sent (nothing happened), answered, or
sent without an answer, which the writer settles (consistency.md R4, §10). An update is never sent twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from pyoxigraph import (
    NamedNode,
    QueryBoolean,
    QueryResultsFormat,
    QuerySolutions,
    Triple,
    parse_query_results,
)

from charactermemory.adapters.handles import fork_count
from charactermemory.adapters.oxigraph.connection import (
    STORE_NAME,
    Pattern,
    ResponseLost,
    Row,
    Term,
    as_nquads,
)
from charactermemory.errors import DatabaseError, StoreClosedError, StoreUnavailable

UPDATE_SECONDS = 10.0
"""How long an update may take to answer (consistency.md R4)."""

QUERY_SECONDS = 30.0
CONNECT_SECONDS = 5.0

IDLE_SECONDS = 50.0
"""After this a kept-alive connection is dropped; `oxigraph serve` closes it at 60 s (consistency.md §10)."""

MAX_CONNECTIONS = 64

_DETAIL_CHARACTERS = 300

_VARIABLES = ("?s", "?p", "?o")
_RESULTS = "application/sparql-results+json"
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_GATEWAY_LOST = (502, 504)
"""A proxy's word that it lost the endpoint's answer; the update may be under evaluation behind it."""


class ServiceConnection:
    """A `Connection` to the endpoint at `url`, whose `/query` and `/update` speak the SPARQL 1.1 Protocol.

    Opening sends nothing. A forked child gets sockets of its own. Errors name the host, never a user name or
    password of the URL. Redirects and proxies of the environment are not followed: an update must reach the
    place that was named.
    """

    def __init__(self, url: str, *, update_seconds: float = UPDATE_SECONDS) -> None:
        parsed = httpx.URL(url)
        self._base = url.rstrip("/")
        self._place = f"{STORE_NAME} at {parsed.host}:{parsed.port or parsed.scheme}"
        self._update_timeout = httpx.Timeout(update_seconds, connect=CONNECT_SECONDS)
        self._client = self._new_client()
        self._forks = fork_count()
        self._closed = False

    def _new_client(self) -> httpx.Client:
        return httpx.Client(
            timeout=httpx.Timeout(QUERY_SECONDS, connect=CONNECT_SECONDS),
            trust_env=False,
            limits=httpx.Limits(
                max_connections=MAX_CONNECTIONS,
                max_keepalive_connections=MAX_CONNECTIONS,
                keepalive_expiry=IDLE_SECONDS,
            ),
            follow_redirects=False,
        )

    def _use(self) -> httpx.Client:
        if self._closed:
            raise StoreClosedError(store=STORE_NAME)
        if self._forks != fork_count():
            # The parent goes on using its sockets; ours would mix with its answers.
            self._client = self._new_client()
            self._forks = fork_count()
        return self._client

    def query(self, text: str) -> list[Row]:
        """See `Connection`."""
        results = self._results(text)
        if not isinstance(results, QuerySolutions):
            raise DatabaseError(detail="a SELECT query was expected")
        try:
            return list(map(tuple, results))
        except (SyntaxError, ValueError) as error:
            raise self._unreadable(error) from error

    def ask(self, text: str) -> bool:
        """See `Connection`."""
        results = self._results(text)
        if not isinstance(results, QueryBoolean):
            raise DatabaseError(detail="an ASK query was expected")
        return bool(results)

    def _results(self, text: str) -> QuerySolutions | QueryBoolean:
        with self._reading():
            response = self._use().post(
                self._base + "/query", content=text.encode(), headers=_asking(_RESULTS)
            )
        self._check(response)
        try:
            return parse_query_results(response.content, QueryResultsFormat.JSON)
        except (SyntaxError, ValueError) as error:
            raise self._unreadable(error) from error

    def update(self, text: str) -> None:
        """See `Connection`; sent once."""
        client = self._use()
        headers = {"content-type": "application/sparql-update"}
        try:
            response = client.post(
                self._base + "/update", content=text.encode(), headers=headers, timeout=self._update_timeout
            )
        except _NOT_SENT as error:
            raise self._unavailable(error) from error
        except httpx.HTTPError as error:
            raise ResponseLost(
                f"{self._place}: no answer to an update ({type(error).__name__})", in_flight=True
            ) from error
        if response.status_code in _GATEWAY_LOST:
            raise ResponseLost(f"{self._place}: HTTP {response.status_code} to an update", in_flight=True)
        self._check(response)

    def match(self, graph: NamedNode, patterns: Sequence[Pattern]) -> list[list[Triple]]:
        """See `Connection`; one query, whose rows say which pattern they answer."""
        found: list[list[Triple]] = [[] for _ in patterns]
        if not patterns:
            return found
        groups = []
        whole: defaultdict[Shape, list[tuple[int, Pattern]]] = defaultdict(list)
        for place, pattern in enumerate(patterns):
            if pattern.limit is None:
                whole[_shape(pattern)].append((place, pattern))
            else:
                groups.append(_limited(graph, place, pattern))
        groups += [_unlimited(graph, shape, alike) for shape, alike in whole.items()]
        parts = _union(groups)
        for number, *ends in self.query(f"SELECT ?n ?s ?p ?o WHERE {{ {parts} }}"):
            place = int(getattr(number, "value", -1))
            found[place].append(_triple(patterns[place], ends))
        return found

    def occurring(self, graph: NamedNode, patterns: Iterable[Pattern]) -> set[Pattern]:
        """See `Connection`; asking would cost a round trip, so all may."""
        return set(patterns)

    def dump(self, graph: NamedNode) -> Iterator[bytes]:
        """See `Connection`; streamed while the endpoint evaluates."""
        client = self._use()
        text = f"CONSTRUCT {{ ?s ?p ?o }} WHERE {{ GRAPH {graph} {{ ?s ?p ?o }} }}".encode()
        headers = _asking("application/n-triples")
        with (
            self._reading(),
            client.stream("POST", self._base + "/query", content=text, headers=headers) as response,
        ):
            if not response.is_success:
                response.read()
            self._check(response)
            yield from as_nquads(_lines(response.iter_bytes()), graph)

    def version(self) -> None:
        """See `Connection`; any process may write to the endpoint."""
        self._use()

    def sync(self) -> None:
        """See `Connection`; durability is the endpoint's (consistency.md §1)."""
        self._use()

    def backup(self, folder: Path) -> bool:
        """See `Connection`; the endpoint's files are not ours."""
        return False

    def close(self) -> None:
        """See `Connection`."""
        if not self._closed:
            self._closed = True
            if self._forks == fork_count():
                self._client.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Whatever keeps a read from its answer: nothing happened, the caller may repeat it."""
        try:
            yield
        except httpx.HTTPError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: httpx.HTTPError) -> StoreUnavailable:
        return StoreUnavailable(store=self._place, detail=f"{type(error).__name__}: {error}")

    def _unreadable(self, error: Exception) -> DatabaseError:
        return DatabaseError(detail=f"{self._place}: the answer is no SPARQL result: {error}")

    def _check(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        detail = f"HTTP {response.status_code}: {response.text[:_DETAIL_CHARACTERS]}"
        if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            raise StoreUnavailable(store=self._place, detail=detail)
        raise DatabaseError(detail=f"{self._place}: {detail}")


def _asking(media_type: str) -> dict[str, str]:
    return {"content-type": "application/sparql-query", "accept": media_type}


Shape = tuple[bool, NamedNode | None, bool]
"""Whether a pattern gives its subject, its predicate, and whether it gives its object."""


def _shape(pattern: Pattern) -> Shape:
    return (pattern.subject is not None, pattern.predicate, pattern.object is not None)


def _limited(graph: NamedNode, number: int, pattern: Pattern) -> str:
    terms = " ".join(
        str(end) if end is not None else variable
        for end, variable in zip(pattern[:3], _VARIABLES, strict=True)
    )
    where = f"GRAPH {graph} {{ {terms} }}"
    return f"{{ SELECT ({number} AS ?n) ?s ?p ?o WHERE {{ {where} }} LIMIT {pattern.limit} }}"


def _unlimited(graph: NamedNode, shape: Shape, patterns: Sequence[tuple[int, Pattern]]) -> str:
    """Return the group that reads all of some patterns that differ in nothing but the ends they give."""
    subject, predicate, obj = shape
    given = " ".join(name for name, is_given in (("?s", subject), ("?o", obj)) if is_given)
    rows = " ".join(
        f"({number} {' '.join(str(end) for end in (item.subject, item.object) if end is not None)})"
        for number, item in patterns
    )
    terms = f"?s {predicate if predicate is not None else '?p'} ?o"
    return f"{{ VALUES (?n {given}) {{ {rows} }} GRAPH {graph} {{ {terms} }} }}"


def _union(groups: Sequence[str]) -> str:
    """Join groups as a balanced tree: 800 in a flat row cost Oxigraph 3.7 s to plan, as a tree 0.1 s."""
    if len(groups) == 1:
        return groups[0]
    half = len(groups) // 2
    return f"{{ {_union(groups[:half])} UNION {_union(groups[half:])} }}"


def _triple(pattern: Pattern, found: Sequence[Term | None]) -> Triple:
    given = (pattern.subject, pattern.predicate, pattern.object)
    subject, predicate, obj = (was if was is not None else end for was, end in zip(given, found, strict=True))
    return Triple(subject, predicate, obj)  # type: ignore[arg-type]  # what a triple pattern binds is a triple


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    yield rest
