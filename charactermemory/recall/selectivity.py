"""Continuous selectivity: a notion that is everywhere opens little, a rare one much (recall.md §12)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecyclePolicy
from charactermemory.domain.model import Model
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.statistics import Count, CountScope
from charactermemory.recall.context import GraphLimits
from charactermemory.recall.expansion import Overrides, Pair
from charactermemory.recall.knobs import FanoutSpec, RecallKnobs
from charactermemory.recall.roots import Root
from charactermemory.recall.trust import Trust

HIGH_SELECTIVITY = 0.5
"""From this score on a decision is labelled high_selectivity (recall.md §12.5)."""

DecisionLabel = Literal[
    "high_selectivity", "low_selectivity_supported", "low_selectivity_rejected", "conservative_fallback"
]


class SelectivityDecision(Model):
    """How much one notion may open along one pair, and why. Score and counts are None in fallback."""

    root: MemoryObjectRef
    relation: RelationType
    object_type: ObjectType
    count_scope: CountScope
    score: float | None = None
    entity_count: int | None = None
    global_count: int | None = None
    support_factor: float
    chosen_fanout: int
    max_fanout: int
    decision: DecisionLabel

    @property
    def fallback(self) -> bool:
        """Whether statistics could not be used."""
        return self.decision == "conservative_fallback"


def count_scope(policy: LifecyclePolicy) -> CountScope:
    """Return which edges count under a policy (recall.md §12.6)."""
    if policy.include_suppressed:
        return "total"
    return "active" if policy.include_superseded else "current"


def selectivity(count: int, overall: int, alpha: float) -> float:
    """Return ln((N + a) / (n + a)) / ln(N + a), clamped to 0..1 (recall.md §12.1)."""
    if overall == 0 or math.log(overall + alpha) <= 0:
        return 0.0
    score = math.log((overall + alpha) / (count + alpha)) / math.log(overall + alpha)
    return min(max(score, 0.0), 1.0)


def budget(score: float, minimum: int, maximum: int, support: float, gamma: float) -> int:
    """Return floor(max * score^gamma * support), clamped to minimum..maximum (recall.md §12.2)."""
    return min(max(math.floor(maximum * math.pow(score, gamma) * support), minimum), maximum)


@dataclass(frozen=True, slots=True)
class Plan:
    """The fan-outs of one notion and the decisions behind them."""

    overrides: Overrides
    decisions: tuple[SelectivityDecision, ...]

    def score(self, pair: Pair) -> float | None:
        """Return how selective the notion is along one pair; None where the statistics do not tell."""
        decision = self._decision(pair)
        return decision.score if decision else None

    def count(self, pair: Pair) -> int | None:
        """Return how many objects in scope it has along one pair; None where the statistics do not tell."""
        decision = self._decision(pair)
        return decision.entity_count if decision else None

    def _decision(self, pair: Pair) -> SelectivityDecision | None:
        return next((row for row in self.decisions if (row.relation, row.object_type) == pair), None)


class Planner:
    """Plans the notions of one retrieve, by one read of the statistics; failures mean fallback."""

    def __init__(
        self, trust: Trust, knobs: RecallKnobs, limits: GraphLimits, policy: LifecyclePolicy
    ) -> None:
        """Make a planner; nothing is read before the first plan."""
        self._trust = trust
        self._knobs = knobs
        self._limits = limits
        self._scope = count_scope(policy)
        self._specs = tuple(
            spec
            for spec in knobs.specs
            if spec.relation in limits.relations and spec.object_type in limits.types
        )

    def plan(self, roots: Sequence[Root]) -> dict[MemoryObjectRef, Plan]:
        """Return the plan of each notion among `roots`; without one, statistics are not touched."""
        notions = [root for root in roots if root.ref.object_type is ObjectType.ENTITY]
        if not notions or not self._specs:
            return {root.ref: Plan({}, ()) for root in notions}
        counts = self._trust.counts([root.ref for root in notions], [spec.pair for spec in self._specs])
        plans = {}
        for root in notions:
            decisions = tuple(
                self._decide(root, spec, counts.at.get((root.ref, spec.pair)), counts.overall.get(spec.pair))
                for spec in self._specs
            )
            overrides = {(row.relation, row.object_type): row.chosen_fanout for row in decisions}
            plans[root.ref] = Plan(overrides, decisions)
        return plans

    def _decide(
        self, root: Root, spec: FanoutSpec, at: Count | None, everywhere: Count | None
    ) -> SelectivityDecision:
        count: int | None = getattr(at, self._scope, None)
        overall: int | None = getattr(everywhere, self._scope, None)
        maximum = min(spec.maximum, self._limits.max_fanout_per_node)
        minimum = min(spec.minimum, maximum)
        support = 1.0 + min(max(root.score, 0.0), 1.0)
        score: float | None = None
        label: DecisionLabel
        if count is None or not overall:
            count = overall = None
            chosen = min(maximum, max(minimum, 1))
            label = "conservative_fallback"
        else:
            score = selectivity(count, overall, self._knobs.alpha)
            chosen = budget(score, minimum, maximum, support, self._knobs.gamma)
            label = _label(score, chosen, support)
        return SelectivityDecision(
            root=root.ref,
            relation=spec.relation,
            object_type=spec.object_type,
            count_scope=self._scope,
            score=score,
            entity_count=count,
            global_count=overall,
            support_factor=support,
            chosen_fanout=chosen,
            max_fanout=maximum,
            decision=label,
        )


def _label(score: float, chosen: int, support: float) -> DecisionLabel:
    if chosen == 0:
        return "low_selectivity_rejected"
    if score >= HIGH_SELECTIVITY:
        return "high_selectivity"
    return "low_selectivity_supported" if support > 1 else "low_selectivity_rejected"
