"""The host's own keys for objects of a memory."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from charactermemory import MemoryObjectRef
from charactermemory.domain.model import storable
from memory_app.api.actions import Action
from memory_app.api.answers import ExternalKeyAnswer, KeyTarget
from memory_app.api.base import MemoryView
from memory_app.api.operation import Answer, Call, operation
from memory_app.api.problems import BadRequest, Conflict, NotFound
from memory_app.api.views.objects import nothing_there
from memory_app.models import ExternalKey

TAG = "Objects"
MAX_KEY = 255


class ExternalKeyView(MemoryView):
    """One key."""

    @operation(id="get_external_key", tag=TAG, action=Action.READ, answers={200: ExternalKeyAnswer})
    def get(self, call: Call, key: str) -> ExternalKeyAnswer:
        """Return the object that a key of the host's stands for."""
        row = ExternalKey.objects.filter(collection=call.collection.name, key=_checked(key)).first()
        if row is None:
            raise NotFound("There is no such key in this collection.", "external_key_not_found")
        return ExternalKeyAnswer.of(row)

    @operation(
        id="put_external_key",
        tag=TAG,
        action=Action.WRITE,
        body=KeyTarget,
        answers={200: ExternalKeyAnswer, 201: ExternalKeyAnswer},
        errors=(404, 409),
    )
    def put(self, call: Call, key: str) -> Answer:
        """Let a key of the host's stand for a stored object, once and for all.

        Saying the same again is answered with 200. A key that stands for another object is a conflict: identity
        is not changed by whoever comes last.
        """
        ref: MemoryObjectRef = call.body.root
        if ref not in call.memory.browse.get(ref):
            raise nothing_there()
        place = {"collection": call.collection.name, "key": _checked(key)}
        try:
            with transaction.atomic():
                row = ExternalKey.objects.create(**place, object_type=ref.object_type.value, object_id=ref.id)
        except IntegrityError:
            row = ExternalKey.objects.get(**place)
        else:
            return Answer(ExternalKeyAnswer.of(row), 201)
        if (row.object_type, row.object_id) != (ref.object_type.value, ref.id):
            raise Conflict("This key stands for another object.", "external_key_taken")
        return Answer(ExternalKeyAnswer.of(row))


def _checked(key: str) -> str:
    """Refuse a key that the database would cut or not store.

    Raises:
        BadRequest: it is too long, or holds NUL or a lone surrogate.
    """
    try:
        if len(storable(key)) <= MAX_KEY:
            return key
        problem = f"it has {len(key)} characters, {MAX_KEY} are allowed"
    except ValueError as error:
        problem = str(error)
    raise BadRequest(f"The key cannot be used: {problem}.", "invalid_key")
