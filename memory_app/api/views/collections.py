"""Collections: list, create, archive."""

from __future__ import annotations

from typing import Annotated

from django.db import IntegrityError, transaction
from pydantic import AfterValidator, Field
from rest_framework.exceptions import PermissionDenied

from charactermemory.config import validate_collection_name
from charactermemory.domain.model import Model
from charactermemory.errors import ConfigValidationError
from memory_app.api.actions import Action
from memory_app.api.answers import CollectionAnswer, CollectionPage
from memory_app.api.base import MemoryView
from memory_app.api.cursors import seal, unseal
from memory_app.api.operation import Answer, Call, operation
from memory_app.api.options import ApiOptions
from memory_app.api.problems import Conflict
from memory_app.api.queries import PageQuery
from memory_app.conf import app_settings
from memory_app.models import MemoryCollection

TAG = "Collections"


def _legal_name(name: str) -> str:
    try:
        validate_collection_name(name)
    except ConfigValidationError as error:
        raise ValueError(str(error)) from None
    return name


class NewCollection(Model):
    """A memory to be created; it belongs to whoever creates it."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=128, pattern="^[a-z0-9][a-z0-9_-]*$"),
        AfterValidator(_legal_name),
    ]


class CollectionsView(MemoryView):
    """Those that exist for the caller."""

    @operation(id="list_collections", tag=TAG, query=PageQuery, answers={200: CollectionPage})
    def get(self, call: Call) -> CollectionPage:
        """List the collections that the caller may do anything with, by name."""
        rows = self.policy(ApiOptions.current()).collections(call.who).order_by("name")
        place = f"collections:{call.who.id}"
        last = unseal(place, [], call.query.cursor)
        if last is not None:
            rows = rows.filter(name__gt=last)
        found = list(rows[: call.query.limit + 1])
        shown = found[: call.query.limit]
        return CollectionPage(
            results=tuple(CollectionAnswer.of(row) for row in shown),
            next=seal(place, [], shown[-1].name) if len(found) > len(shown) else None,
        )

    @operation(
        id="create_collection",
        tag=TAG,
        body=NewCollection,
        answers={201: CollectionAnswer},
        errors=(409, 503),
        throttle="memory_operate",
    )
    def post(self, call: Call) -> Answer:
        """Create a memory that belongs to the caller; an API key is bound to what it creates.

        Needs Django's permission to add collections, and in an API key the `operate` scope. Names are unique in
        the deployment.
        """
        if not self.policy(ApiOptions.current()).may_create(call.who):
            raise PermissionDenied("This needs the right to create collections.", code="scope_missing")
        wanted: NewCollection = call.body
        try:
            with transaction.atomic():
                row = MemoryCollection.objects.create(name=wanted.name, language=app_settings().core.language)
        except IntegrityError:
            raise Conflict("This name is taken.", "collection_name_taken") from None
        call.collection = row
        try:
            commits = call.memory.stores.graph.head()
        except BaseException:
            row.delete()
            raise
        if commits:  # made in Python in a transaction that was rolled back, or restored without its row
            raise Conflict("This name is taken.", "collection_name_taken")
        with transaction.atomic():
            row.owner = call.who.user
            row.save(update_fields=["owner"])
            if call.who.key is not None:
                call.who.key.collections.add(row)
        return Answer(CollectionAnswer.of(row), 201)


class CollectionView(MemoryView):
    """One collection."""

    @operation(id="get_collection", tag=TAG, action=Action.READ, answers={200: CollectionAnswer})
    def get(self, call: Call) -> CollectionAnswer:
        """Return one collection."""
        return CollectionAnswer.of(call.collection)


class ArchiveView(MemoryView):
    """Closing a collection."""

    @operation(id="archive_collection", tag=TAG, action=Action.OPERATE, answers={200: CollectionAnswer})
    def post(self, call: Call) -> CollectionAnswer:
        """Close a collection: its memory can neither be changed nor read any more; nothing is deleted."""
        call.collection.archived = True
        call.collection.save(update_fields=["archived"])
        return CollectionAnswer.of(call.collection)
