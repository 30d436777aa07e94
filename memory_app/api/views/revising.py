"""Correct and forget."""

from __future__ import annotations

from charactermemory import CorrectMemoryDraft, ForgetMemoryDraft
from memory_app.api.actions import Action
from memory_app.api.answers import LifecycleAnswer
from memory_app.api.base import MemoryView
from memory_app.api.operation import Call, operation
from memory_app.api.queries import PreviewQuery

TAG = "Revise"


class CorrectView(MemoryView):
    """Replacing what is wrong."""

    @operation(
        id="correct",
        tag=TAG,
        action=Action.REVIEW,
        body=CorrectMemoryDraft,
        query=PreviewQuery,
        answers={200: LifecycleAnswer},
        errors=(404, 409, 422),
        keyed=True,
    )
    def post(self, call: Call) -> LifecycleAnswer:
        """Supersede wrong memories by new ones; what was believed stays as history.

        `dry_run=true` tells what would change and changes nothing. Without a replacement a default is made.
        """
        memory = call.memory
        made = memory.plan_correction(call.body) if call.query.dry_run else memory.correct(call.body)
        return LifecycleAnswer.of(made)


class ForgetView(MemoryView):
    """Taking influence away."""

    @operation(
        id="forget",
        tag=TAG,
        action=Action.REVIEW,
        body=ForgetMemoryDraft,
        query=PreviewQuery,
        answers={200: LifecycleAnswer},
        errors=(404, 409, 422),
        keyed=True,
    )
    def post(self, call: Call) -> LifecycleAnswer:
        """Take influence from memories and keep them as history; there is no way back.

        `dry_run=true` tells what would change and changes nothing.
        """
        memory = call.memory
        made = memory.plan_forget(call.body) if call.query.dry_run else memory.forget(call.body)
        return LifecycleAnswer.of(made)
