"""Search rules that hold for every engine: tie closure, canonical order, verdicts (recall.md §11.4-11.6).

Engines break equal scores arbitrarily, so a plain top-k could return other members each time. We fetch past
the cut until the tied group there is whole, and order it ourselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from charactermemory.ids import ObjectType
from charactermemory.ports.vectors import Completeness, HybridHits, LegHits, VectorCandidate

from .records import INDEXED_TYPES, Identity, candidate

if TYPE_CHECKING:
    from .glance import Glance

ENGINE_CAP = 2**32 - 1
"""Most points that Qdrant returns for one request."""

SCORE_DIGITS = 6
"""Decimals kept of a score: Edge and the service differ by up to 2.4e-7 (decisions.md "To R6")."""

NOT_REQUESTED = LegHits(candidates=(), completeness=Completeness(kind="not_requested"))
"""What a leg answers when nothing was asked of it."""


class Hit(Protocol):
    """What these rules need of an engine's hit."""

    @property
    def score(self) -> float:
        """The engine's own score, not rounded."""
        ...


Request = TypeVar("Request")
Found = TypeVar("Found", bound=Hit)

Fetch = Callable[[int], Sequence[Found]]
"""Return the engine's best `ask` hits in scope, best first."""

Identify = Callable[[Sequence[Found]], Sequence[Identity]]
"""Return who each hit is about, in the order of the hits."""


def rounded(score: float) -> float:
    """Round a score for ordering and comparison; -0.0 becomes 0.0."""
    return round(score, SCORE_DIGITS) + 0.0


def fetch_bound(limit: int, cap: int = ENGINE_CAP) -> int:
    """Return how many hits a leg of `limit` fetches at most."""
    return min(cap, max(limit * 16, limit + 4096))


def asks(limit: int, cap: int = ENGINE_CAP) -> Iterator[int]:
    """Yield how many hits to fetch, try after try: one past the cut, then twice as many, up to the bound."""
    bound = fetch_bound(limit, cap)
    ask = min(limit + 1, bound)
    while ask < bound:
        yield ask
        ask = min(ask * 2, bound)
    yield bound


@dataclass(frozen=True, slots=True)
class Fetched(Generic[Found]):
    """Hits up to a whole tied group at the cut, or up to the bound."""

    hits: Sequence[Found]
    closed: bool


def close_ties(fetch: Fetch[Found], limit: int, cap: int = ENGINE_CAP) -> Fetched[Found]:
    """Fetch until the group tied at the cut is complete, at most up to the bound.

    Scores are compared as rounded, strictly and without an epsilon, since they are ordered as rounded.
    """
    hits: Sequence[Found] = ()
    for ask in asks(limit, cap):
        hits = fetch(ask)
        if len(hits) < ask:
            return Fetched(hits, closed=True)
        if ask > limit and rounded(hits[-1].score) < rounded(hits[limit - 1].score):
            return Fetched(hits, closed=True)
    return Fetched(hits, closed=False)


def canonical(found: Iterable[tuple[float, Identity]], limit: int) -> tuple[VectorCandidate, ...]:
    """Return the best hit of each surface of each object, in canonical order, at most `limit`."""
    best: dict[Identity, VectorCandidate] = {}
    for below, identity in sorted([(-score, identity) for score, identity in found]):
        if len(best) >= limit:
            break
        if identity not in best:
            best[identity] = candidate(identity, -below)
    return tuple(best.values())


def leg(
    fetch: Fetch[Found], identify: Identify[Found], limit: int, scanned: int | None, cap: int = ENGINE_CAP
) -> LegHits:
    """Run one leg to its verdict.

    `scanned` is the exact number of records in scope where the engine is known to have looked at each of
    them in the same state; None where that is not known, which is the weaker verdict.
    """
    fetched = close_ties(fetch, limit, cap)
    hits = fetched.hits
    if not fetched.closed:
        verdict = Completeness(
            kind="boundary_tie_open", fetched=len(hits), fetch_bound=fetch_bound(limit, cap)
        )
    elif scanned is not None:
        verdict = Completeness(kind="exhaustive", scanned=scanned)
    else:
        verdict = Completeness(kind="boundary_tie_closed", fetched=len(hits))
    scores: list[float] = []
    for hit in hits:
        score = rounded(hit.score)
        if len(scores) >= limit and score < scores[limit - 1]:
            break  # below the cut no hit can become a candidate, so nobody asks who it is about
        scores.append(score)
    found = zip(scores, identify(hits[: len(scores)]), strict=True)
    return LegHits(candidates=canonical(found, limit), completeness=verdict)


def search_legs(
    run: Callable[[list[Request]], Sequence[Sequence[Found]]],
    identify: Identify[Found],
    makers: tuple[Callable[[int], Request] | None, Callable[[int], Request] | None],
    limit: int,
    scanned: int | None,
    cap: int = ENGINE_CAP,
    glance: Glance[Request] | None = None,
) -> HybridHits:
    """Run the dense and the lexical leg, starting with one engine call; what was not asked is `not_requested`.

    A maker turns the number of wanted hits into one request of the engine; `run` answers a list of them. With a
    `glance` the dense leg's first request is that, and its own follows only where that does not settle it.
    Each leg's second try comes along with its first: nearly half of the questions have a tie of BM25 scores at
    the cut, and so many hits more cost less than a tenth of one more search.
    """
    *_, ahead = islice(asks(limit, cap), 2)
    dense, lexical = makers
    requests = [make(ahead) for make in makers if make is not None]
    if dense is not None and glance is not None:
        requests[0] = glance.request(limit)
    answers = iter(run(requests) if requests else ())

    def hits_of(make: Callable[[int], Request] | None, look: Glance[Request] | None = None) -> LegHits:
        if make is None:
            return NOT_REQUESTED
        first = next(answers)
        if look is not None and not look.settles(first, limit):
            first = run([make(ahead)])[0]

        def fetch(ask: int) -> Sequence[Found]:
            return first[:ask] if ask <= ahead else run([make(ask)])[0]

        return leg(fetch, identify, limit, scanned, cap)

    return HybridHits(dense=hits_of(dense, glance), lexical=hits_of(lexical))


def zero_norm_leg(scope: Sequence[Identity], limit: int) -> LegHits:
    """Answer a query without length: every record of the scope scores 0.0 (recall.md §11.4.3)."""
    return LegHits(
        candidates=canonical([(0.0, identity) for identity in scope], limit),
        completeness=Completeness(kind="exhaustive", scanned=len(scope)),
    )


def nothing_found(scanned: int | None) -> LegHits:
    """Answer a text without a single term, which matches nothing."""
    return leg(lambda ask: (), lambda hits: (), 0, scanned)


def restricted(scope: Collection[ObjectType]) -> list[str] | None:
    """Return the type tokens to filter by; None where `scope` leaves nothing out.

    A filter costs the engine as much as the search itself (4.2 against 10.2 ms at 20,000 points).
    """
    if INDEXED_TYPES <= set(scope):
        return None
    return sorted({object_type.value for object_type in scope})
