"""Search rules that hold for every engine: tie closure, canonical order, verdicts (recall.md §11.4-11.6).

Engines break equal scores arbitrarily, so a plain top-k could return other members each time. We fetch past
the cut until the tied group there is whole, and order it ourselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from charactermemory.ids import ObjectType
from charactermemory.ports.vectors import Completeness, LegHits, VectorCandidate

from .records import INDEXED_TYPES, Identity

ENGINE_CAP = 2**32 - 1
"""Most points that Qdrant returns for one request."""

SCORE_DIGITS = 6
"""Decimals kept of a score: Edge and the service differ by up to 2.4e-7 (decisions.md "To R6")."""

NOT_REQUESTED = LegHits(candidates=(), completeness=Completeness(kind="not_requested"))
"""What a leg answers when nothing was asked of it."""


Request = TypeVar("Request")


class Hit(NamedTuple):
    """One engine hit: its score, rounded, and how to read who it is, which costs more than the rest."""

    score: float
    identity: Callable[[], Identity]


Fetch = Callable[[int], Sequence[Hit]]
"""Return the engine's best `ask` hits in scope, best first."""


def rounded(score: float) -> float:
    """Round a score for ordering and comparison; -0.0 becomes 0.0."""
    return round(score, SCORE_DIGITS) + 0.0


def fetch_bound(limit: int, cap: int = ENGINE_CAP) -> int:
    """Return how many hits a leg of `limit` fetches at most."""
    return min(cap, max(limit * 16, limit + 4096))


def first_ask(limit: int, cap: int = ENGINE_CAP) -> int:
    """Return how many hits the first fetch asks for: one past the cut."""
    return min(limit + 1, fetch_bound(limit, cap))


@dataclass(frozen=True, slots=True)
class Fetched:
    """Hits up to a whole tied group at the cut, or up to the bound."""

    hits: Sequence[Hit]
    closed: bool


def close_ties(fetch: Fetch, limit: int, cap: int = ENGINE_CAP) -> Fetched:
    """Fetch until the group tied at the cut is complete, doubling from `limit + 1` up to the bound.

    Scores are compared as rounded, strictly and without an epsilon, since they are ordered as rounded.
    """
    bound = fetch_bound(limit, cap)
    ask = first_ask(limit, cap)
    while True:
        hits = fetch(ask)
        if len(hits) < ask:
            return Fetched(hits, closed=True)
        if ask > limit and hits[-1].score < hits[limit - 1].score:
            return Fetched(hits, closed=True)
        if ask == bound:
            return Fetched(hits, closed=False)
        ask = min(ask * 2, bound)


def canonical(hits: Iterable[Hit], limit: int) -> tuple[VectorCandidate, ...]:
    """Return the best hit of each surface of each object, in canonical order, at most `limit`."""
    best: dict[tuple[int, int, int], tuple[float, Identity]] = {}
    for score, read in hits:
        identity = read()
        known = best.get(identity.order)
        if known is None or score > known[0]:
            best[identity.order] = (score, identity)
    order = sorted(best, key=lambda key: (-best[key][0], key))
    return tuple(
        VectorCandidate(identity.ref, identity.surface, score)
        for score, identity in (best[key] for key in order[:limit])
    )


def leg(fetch: Fetch, limit: int, scanned: int | None, cap: int = ENGINE_CAP) -> LegHits:
    """Run one leg to its verdict.

    `scanned` is the exact number of records in scope where the engine is known to have looked at each of
    them in the same state; None where that is not known, which is the weaker verdict.
    """
    fetched = close_ties(fetch, limit, cap)
    if not fetched.closed:
        verdict = Completeness(
            kind="boundary_tie_open", fetched=len(fetched.hits), fetch_bound=fetch_bound(limit, cap)
        )
    elif scanned is not None:
        verdict = Completeness(kind="exhaustive", scanned=scanned)
    else:
        verdict = Completeness(kind="boundary_tie_closed", fetched=len(fetched.hits))
    hits = fetched.hits
    if len(hits) > limit > 0:
        # Below the cut no hit can become a candidate, so it is not read.
        cut = hits[limit - 1].score
        hits = [hit for hit in hits if hit.score >= cut]
    return LegHits(candidates=canonical(hits, limit), completeness=verdict)


def search_legs(
    run: Callable[[list[Request]], Sequence[Sequence[Hit]]],
    makers: Sequence[Callable[[int], Request] | None],
    limit: int,
    scanned: int | None,
    cap: int = ENGINE_CAP,
) -> list[LegHits]:
    """Run several legs, their first fetches in one engine call; what was not asked is `not_requested`.

    A maker turns the number of wanted hits into one request of the engine; `run` answers a list of them.
    """
    ask = first_ask(limit, cap)
    asked = [make(ask) for make in makers if make is not None]
    firsts = iter(run(asked) if asked else ())

    def fetch_after(first: Sequence[Hit], make: Callable[[int], Request]) -> Fetch:
        return lambda wanted: first if wanted == ask else run([make(wanted)])[0]

    return [
        NOT_REQUESTED if make is None else leg(fetch_after(next(firsts), make), limit, scanned, cap)
        for make in makers
    ]


def zero_norm_leg(scope: Sequence[Hit], limit: int) -> LegHits:
    """Answer a query without length: every record of the scope scores 0.0 (recall.md §11.4.3)."""
    return LegHits(
        candidates=canonical(scope, limit),
        completeness=Completeness(kind="exhaustive", scanned=len(scope)),
    )


def nothing_found(scanned: int | None) -> LegHits:
    """Answer a text without a single term, which matches nothing."""
    return leg(lambda ask: (), 0, scanned)


def restricted(scope: Collection[ObjectType]) -> list[str] | None:
    """Return the type tokens to filter by; None where `scope` leaves nothing out.

    A filter costs the engine as much as the search itself (4.2 against 10.2 ms at 20,000 points).
    """
    if INDEXED_TYPES <= set(scope):
        return None
    return sorted({object_type.value for object_type in scope})
