"""Recall."""

from __future__ import annotations

from charactermemory import RetrievalContext, RetrievalOutcome
from memory_app.api.actions import Action
from memory_app.api.answers import PromptAnswer
from memory_app.api.base import MemoryView
from memory_app.api.operation import Call, operation
from memory_app.api.problems import ProblemItem, Unprocessable
from memory_app.api.queries import RetrieveQuery


class RetrieveView(MemoryView):
    """What comes to mind."""

    @operation(
        id="retrieve",
        tag="Recall",
        action=Action.READ,
        body=RetrievalContext,
        query=RetrieveQuery,
        answers={200: (RetrievalOutcome, PromptAnswer)},
        errors=(422, 502),
        throttle="memory_retrieve",
    )
    def post(self, call: Call) -> RetrievalOutcome | PromptAnswer:
        """Return what the character has in mind in a situation.

        `format=prompt` writes it as text for a prompt, fenced as data, within `budget` tokens. Where a store
        or the provider of embeddings fails, the rest is served, and `degraded` says what is missing.
        """
        query: RetrieveQuery = call.query
        given = [name for name in ("budget", "style") if getattr(query, name) is not None]
        if query.format == "pack" and given:
            items = [ProblemItem(parameter=name, detail="it belongs to format=prompt") for name in given]
            raise Unprocessable("These parameters do not go together.", "contradicting_query", items)
        outcome = call.memory.retrieve(call.body)
        if query.format == "pack":
            return outcome
        context: RetrievalContext = call.body
        rendered = call.memory.render(
            outcome.pack, budget=query.budget, style=query.style or "markdown", scene=context.scene
        )
        return PromptAnswer.of(rendered, outcome)
