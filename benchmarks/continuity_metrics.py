"""The metrics of continuity (vision.md §4.2), over answers in rank order.

An item credits its own name or, if that is not wanted, its episode's. What cannot be measured is None, never 0.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from charactermemory import CharacterMemory, DerivedMemory, MemoryObjectRef, RetrievalOutcome
from charactermemory.recall.tokens import estimate_tokens

CUTS = (5, 10)
SHORT_DAYS, LONG_DAYS = 30, 180
"""Gaps below the first are short, from the second on long."""

Item = tuple[str | None, str | None]
"""The scenario's name of a returned memory, and of the episode it comes from."""


@dataclass(frozen=True)
class Answer:
    """What one question brought.

    Attributes:
        question: its name.
        relevant, irrelevant: names that are wanted, and a sample of those that are not.
        items: what came, in rank order.
        gap_days: age of the oldest wanted memory.
        outcome: the retrieval with its trace.
        hubs: the notions that are hubs.
        pack_text, history: the rendered pack, and all that was ever said.
        integrity: violations by kind.
    """

    question: str
    relevant: frozenset[str]
    irrelevant: frozenset[str]
    items: Sequence[Item]
    gap_days: float
    outcome: RetrievalOutcome
    hubs: frozenset[MemoryObjectRef]
    pack_text: str
    history: str
    integrity: Counter[str] = field(default_factory=Counter)

    @property
    def gap(self) -> str:
        """The bucket of the gap."""
        return "short" if self.gap_days < SHORT_DAYS else "medium" if self.gap_days < LONG_DAYS else "long"

    @property
    def ranked(self) -> list[str | None]:
        """What each item is credited to."""
        return [
            own if own in self.relevant or source not in self.relevant else source
            for own, source in self.items
        ]

    def recall(self, cut: int) -> float:
        """The share of the wanted that is among the first `cut` items."""
        return len(self.relevant & set(self.ranked[:cut])) / len(self.relevant)

    def reciprocal_rank(self, cut: int) -> float:
        """One over the place of the first wanted item."""
        return next(
            (1 / place for place, name in enumerate(self.ranked[:cut], 1) if name in self.relevant), 0.0
        )

    def ndcg(self, cut: int) -> float:
        """Discounted gain; each wanted memory counts where it first appears."""
        firsts = [self.ranked.index(name) for name in self.relevant if name in self.ranked[:cut]]
        best = sum(1 / math.log2(place + 2) for place in range(min(cut, len(self.relevant))))
        return sum(1 / math.log2(place + 2) for place in firsts) / best

    def labelled(self) -> list[tuple[Item, bool]]:
        """The items that are labelled, with whether they are noise."""
        rows = []
        for item in self.items:
            wanted = any(name in self.relevant for name in item)
            if wanted or any(name in self.irrelevant for name in item):
                rows.append((item, not wanted))
        return rows

    def pollution(self) -> float | None:
        """Noise among the labelled items."""
        return _share(noise for _, noise in self.labelled())

    def event_pollution(self) -> float | None:
        """The same by event; one with any wanted item is clean."""
        events: dict[str | None, bool] = {}
        for (own, source), noise in self.labelled():
            events[source or own] = events.get(source or own, True) and noise
        return _share(events.values())

    def measures(self) -> dict[str, float | None]:
        """Every metric of this answer."""
        found: dict[str, float | None] = {"continuity_gap_days": self.gap_days}
        for cut in CUTS:
            found[f"recall_fraction@{cut}"] = self.recall(cut)
            found[f"recall_any@{cut}"] = float(self.recall(cut) > 0)
            found[f"recall_all@{cut}"] = float(self.recall(cut) == 1)
            found[f"mrr@{cut}"] = self.reciprocal_rank(cut)
            found[f"ndcg@{cut}"] = self.ndcg(cut)
            for gap in ("short", "medium", "long"):
                value = self.recall(cut) if gap == self.gap else None
                found[f"continuity_recall_fraction_gap_{gap}@{cut}"] = value
        found["sampled_context_pollution_rate"] = self.pollution()
        found["sampled_event_pollution_rate"] = self.event_pollution()
        found["typed_rationale_coverage"] = _share(
            bool(entry.admitted_by) for entry in self.outcome.pack.admissions
        )
        pack, history = estimate_tokens(self.pack_text), estimate_tokens(self.history)
        found["context_reduction_rate"] = 1 - pack / history if history else None
        return found | self._hub_measures()

    def _hub_measures(self) -> dict[str, float | None]:
        trace = self.outcome.trace
        assert trace is not None
        fanout, decisions = trace.fanout_utilization, trace.selectivity_decisions
        scores = [row.score for row in decisions if row.score is not None]
        touching = {
            end
            for row in trace.graph_relations
            for end, other in ((row.source, row.target), (row.target, row.source))
            if other in self.hubs
        }
        return {
            "hub_context_share": _share(entry.object in touching for entry in self.outcome.pack.admissions)
            if self.hubs
            else None,
            "hub_fanout_utilization_mean": _mean(
                row.retained_count / row.selected_cap
                for row in fanout
                if row.node in self.hubs and row.selected_cap
            ),
            "fanout_over_budget_count": float(
                sum(
                    row.selected_cap > row.configured_cap or row.retained_count > row.selected_cap
                    for row in fanout
                )
            ),
            "conservative_fallback_activation_count": float(sum(row.fallback for row in decisions)),
            "selectivity_score_mean": _mean(scores),
        }


@dataclass(frozen=True)
class Report:
    """One scenario: its answers, what `verify` found afterwards, and questions a restart changed."""

    name: str
    controlled: bool
    answers: Sequence[Answer]
    differences: int
    unstable: int

    @property
    def integrity(self) -> int:
        """All violations together."""
        return self.differences + self.unstable + sum(sum(a.integrity.values()) for a in self.answers)


def integrity_of(
    memory: CharacterMemory,
    outcome: RetrievalOutcome,
    items: Sequence[MemoryObjectRef],
    names: Mapping[MemoryObjectRef, str],
) -> Counter[str]:
    """Count what must never come: each kind that one answer can show."""
    stored = memory.browse.get(*items)
    found: Counter[str] = Counter()
    for ref in items:
        item = stored.get(ref)
        found["missing_external_id"] += ref not in names
        found["graph_missing_returned"] += item is None
        if item is None:
            continue
        found["suppressed_returned"] += item.suppressed
        found["superseded_returned"] += bool(item.superseded_by)
        if isinstance(item.object, DerivedMemory):
            belief = item.object
            sources = (*belief.derived_from_episode_ids, *belief.derived_from_observation_ids)
            found["unprovenanced_derived"] += not (sources or belief.given_by_application)
    found["degraded"] += bool(outcome.rationale.degraded)
    return +found


def summary(reports: Sequence[Report]) -> dict[str, float | None]:
    """Return the mean of every metric over the questions that have it."""
    rows = [answer.measures() for report in reports for answer in report.answers]
    names = list(dict.fromkeys(name for row in rows for name in row))
    found = {name: _mean(value for row in rows if (value := row[name]) is not None) for name in names}
    for counted in ("fanout_over_budget_count", "conservative_fallback_activation_count"):
        found[counted] = math.fsum(row[counted] or 0.0 for row in rows)
    found["orphan_vectors_and_other_differences"] = float(sum(report.differences for report in reports))
    return found


def table(reports: Sequence[Report], verbose: bool) -> str:
    """Return one line a question; with `verbose` also what it brought."""
    lines = [f"{'scenario':28} {'question':30} {'gap':>6}  R@5 R@10  MRR  noise events  integrity"]
    for report in reports:
        for answer in report.answers:
            polluted, events = _cell(answer.pollution()), _cell(answer.event_pollution())
            lines.append(
                f"{report.name:28} {answer.question:30} {answer.gap:>6} {answer.recall(5):4.2f} "
                f"{answer.recall(10):4.2f} {answer.reciprocal_rank(10):4.2f} {polluted:>6} {events:>6}  "
                f"{dict(answer.integrity) or 0}"
            )
            if verbose:
                lines += [_line(answer, place) for place in range(len(answer.items))]
        if report.differences or report.unstable:
            lines.append(f"  verify found {report.differences}, changed by a restart {report.unstable}")
    return "\n".join(lines)


def _line(answer: Answer, place: int) -> str:
    own, source = answer.items[place]
    entry = answer.outcome.pack.admissions[place]
    sign = "+" if {own, source} & answer.relevant else "-" if {own, source} & answer.irrelevant else " "
    scores = entry.scores
    parts = f"vector {scores.vector_score:.2f} similarity {scores.similarity} lexical {scores.lexical}"
    return f"    {place + 1:2} {sign} {own}  {scores.final_score:.3f} ({parts})"


def _cell(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"


def _share(flags: Iterable[bool]) -> float | None:
    given = list(flags)
    return sum(given) / len(given) if given else None


def _mean(values: Iterable[float]) -> float | None:
    given = list(values)
    return statistics.fmean(given) if given else None
