"""Who may do what to which memory. A host replaces the policy by an import string (`ACCESS_POLICY_CLASS`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.exceptions import PermissionDenied

from memory_app.api.actions import Action, Principal
from memory_app.api.problems import NotFound
from memory_app.models import MemoryCollection

OWNER = frozenset({Action.READ, Action.WRITE, Action.REVIEW})
PERMISSIONS: Mapping[Action, str] = {
    Action.READ: "memory_app.view_memory_content",
    Action.WRITE: "memory_app.write_memory",
    Action.REVIEW: "memory_app.write_memory",
    Action.OPERATE: "memory_app.operate_memory",
}
"""The model permission that allows each action in every collection: it is for the deployment's own staff."""


class AccessPolicy:
    """The default: owners recall, write and review; operating is a permission; a key only narrows.

    A policy of a host's own overrides `user_may` and `user_collections` together: the one judges a collection,
    the other lists those of which the first would let through anything.
    """

    def user_may(self, user: Any, collection: MemoryCollection, action: Action) -> bool:
        """Whether the user may do `action` to the collection, keys aside."""
        owned = collection.owner_id is not None and collection.owner_id == user.pk
        return (owned and action in OWNER) or user.has_perm(PERMISSIONS[action])

    def user_collections(self, user: Any) -> QuerySet[MemoryCollection]:
        """Return the collections to which the user may do anything."""
        if any(user.has_perm(name) for name in PERMISSIONS.values()):
            return MemoryCollection.objects.all()
        return MemoryCollection.objects.filter(owner=user)

    def may_create(self, principal: Principal) -> bool:
        """Whether the principal may create collections: Django's add permission, and the scope in a key."""
        return Action.OPERATE in principal.scopes and principal.user.has_perm(
            "memory_app.add_memorycollection"
        )

    def collections(self, principal: Principal) -> QuerySet[MemoryCollection]:
        """Return the collections that exist for the principal."""
        found = self.user_collections(principal.user)
        if principal.key is not None:
            found = found.filter(Q(api_keys=principal.key))
        return found


def admit(policy: AccessPolicy, principal: Principal, name: str, action: Action) -> MemoryCollection:
    """Return the collection called `name`, if the principal may do `action` to it.

    A key must be bound to the collection and have the scope, whatever the policy says of its user.

    Raises:
        NotFound: there is none, or the principal may do nothing to it; both take the same work and say the
            same, so that nobody learns which collections there are.
        PermissionDenied: the principal may do something to it, and not this.
    """
    rows = MemoryCollection.objects.all() if principal.key is None else principal.key.collections.all()
    # PostgreSQL fails at a NUL instead of finding nothing.
    found = rows.filter(name=name).first() if "\0" not in name else None
    judged = found or MemoryCollection()

    def may(wanted: Action) -> bool:
        return wanted in principal.scopes and policy.user_may(principal.user, judged, wanted)

    if may(action) and found is not None:
        return found
    others = [may(other) for other in Action if other is not action]
    if found is None or not any(others):
        raise NotFound(
            "There is no such collection, or none that this credential opens.", code="collection_not_found"
        )
    raise PermissionDenied(f"This needs the {action.value} right on the collection.", code="scope_missing")
