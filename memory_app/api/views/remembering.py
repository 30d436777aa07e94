"""Remember: in one call, or by a plan that is made, judged and committed; and links."""

from __future__ import annotations

from charactermemory import (
    CommitOptions,
    MemoryLinkDraft,
    PrepareOptions,
    RememberInput,
    RememberPlanDefaults,
    RememberWritePlan,
    derive_id,
)
from charactermemory.clock import utc_now
from charactermemory.remember.plan import CandidateValidationStatus
from memory_app.api.actions import Action
from memory_app.api.answers import LinkAnswer, PlanVerdict, RememberAnswer
from memory_app.api.base import MemoryView
from memory_app.api.idempotency import defaults_of, seed_of
from memory_app.api.operation import Answer, Call, operation
from memory_app.api.queries import CommitQuery, PrepareQuery

TAG = "Remember"


class PlansView(MemoryView):
    """Plans are values; the server keeps none."""

    @operation(
        id="prepare",
        tag=TAG,
        action=Action.WRITE,
        body=RememberInput,
        query=PrepareQuery,
        answers={200: RememberWritePlan},
        errors=(422,),
    )
    def post(self, call: Call) -> RememberWritePlan:
        """Make a plan of what is to be remembered.

        Nothing is read or written, and nothing is inferred from text. Keep the plan: committing the same plan
        again changes nothing.
        """
        query: PrepareQuery = call.query
        fresh = RememberPlanDefaults.generated(utc_now)
        defaults = RememberPlanDefaults.fixed(
            query.operation_seed or fresh.operation_seed, query.created_at or fresh.created_at
        )
        options = PrepareOptions(
            include_vector_index_candidates=query.include_vector_index_candidates,
            include_stats_update_candidates=query.include_stats_update_candidates,
        )
        return call.memory.prepare(call.body, options, defaults)


class ValidateView(MemoryView):
    """Judging a plan."""

    @operation(
        id="validate_plan",
        tag=TAG,
        action=Action.WRITE,
        body=RememberWritePlan,
        answers={200: PlanVerdict},
    )
    def post(self, call: Call) -> PlanVerdict:
        """Judge a plan against the memory as it is now; nothing is written."""
        rows = call.memory.validate_plan(call.body)
        valid = all(row.status is CandidateValidationStatus.VALID for row in rows)
        return PlanVerdict(valid=valid, validations=rows)


class CommitView(MemoryView):
    """Storing a plan."""

    @operation(
        id="commit",
        tag=TAG,
        action=Action.WRITE,
        body=RememberWritePlan,
        query=CommitQuery,
        answers={201: RememberAnswer},
        errors=(409, 413, 422),
        keyed=True,
    )
    def post(self, call: Call) -> Answer:
        """Store a valid plan whole, or nothing of it.

        What could not be derived from it is named in `repair_needed`, and `complete` is false; nothing of the
        memory itself is missing then.
        """
        return Answer(RememberAnswer.of(call.memory.commit(call.body, _commit_options(call.query))), 201)


class RememberView(MemoryView):
    """Both steps in one."""

    @operation(
        id="remember",
        tag=TAG,
        action=Action.WRITE,
        body=RememberInput,
        query=CommitQuery,
        answers={201: RememberAnswer},
        errors=(409, 413, 422),
        keyed=True,
    )
    def post(self, call: Call) -> Answer:
        """Prepare and commit in one call.

        Without an `Idempotency-Key`, remembering the same twice makes two memories.
        """
        plan = call.memory.prepare(call.body, defaults=defaults_of(call.record) if call.record else None)
        return Answer(RememberAnswer.of(call.memory.commit(plan, _commit_options(call.query))), 201)


class LinkView(MemoryView):
    """Links that a caller authors."""

    @operation(
        id="link",
        tag=TAG,
        action=Action.WRITE,
        body=MemoryLinkDraft,
        answers={201: LinkAnswer},
        errors=(404, 409, 422),
        keyed=True,
        kept=False,  # the answer holds the rationale, and the host's database no memory text (DESIGN R14)
    )
    def post(self, call: Call) -> Answer:
        """Relate two stored objects; the same link again is answered as stored."""
        draft: MemoryLinkDraft = call.body
        if call.record:
            draft = draft.replace(
                id=draft.id or derive_id(seed_of(call.record)),
                created_at=draft.created_at or call.record.created_at,
            )
        return Answer(LinkAnswer.of(call.memory.link(draft)), 201)


def _commit_options(query: CommitQuery) -> CommitOptions:
    return CommitOptions(update_vectors=query.update_vectors, update_stats=query.update_stats)
