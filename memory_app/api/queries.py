"""The query strings of the operations."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from charactermemory.domain.model import Instant, Model, Text
from charactermemory.ids import ObjectType
from charactermemory.recall.render import Style
from memory_app.api.bodies import WHOLE, Flag

PAGE = 100
"""Items of a page at most (django-practice §7.3)."""
MAX_BUDGET = 1_000_000
"""Tokens a prompt may be allowed; more than any model reads."""

Limit = Annotated[int, Field(ge=1, le=PAGE, description="Items of the page."), WHOLE]
Cursor = Annotated[str, Field(max_length=2_000, description="`next` of the page before, as it came.")]


class PrepareQuery(Model):
    """How a plan is made; fixed `operation_seed` and `created_at` make the same plan again."""

    include_vector_index_candidates: Flag = True
    include_stats_update_candidates: Flag = True
    operation_seed: Annotated[Text, Field(min_length=1)] | None = None
    created_at: Instant | None = None


class CommitQuery(Model):
    """Whether the derived stores are written now; false leaves it to a sweep."""

    update_vectors: Flag = True
    update_stats: Flag = True


class RetrieveQuery(Model):
    """What recall answers: the pack, or the pack as prompt text within a budget of tokens."""

    format: Literal["pack", "prompt"] = "pack"
    budget: Annotated[int, Field(ge=1, le=MAX_BUDGET), WHOLE] | None = None
    style: Style | None = None


class PreviewQuery(Model):
    """Whether to tell only what would change."""

    dry_run: Flag = False


class ObjectsQuery(Model):
    """Which objects to list."""

    type: ObjectType | None = None
    state: Literal["current", "superseded", "suppressed"] | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class RepairsQuery(Model):
    """Which repairs to list."""

    status: Literal["pending", "claimed", "succeeded", "dead", "cancelled"] | None = None
    store: Literal["vector", "statistics"] | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class PageQuery(Model):
    """Which page."""

    limit: Limit = 50
    cursor: Cursor | None = None
