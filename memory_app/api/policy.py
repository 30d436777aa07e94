"""Who may do what to which memory. A host replaces the policy by an import string (`ACCESS_POLICY_CLASS`)."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import Q, QuerySet
from rest_framework.exceptions import PermissionDenied

from memory_app.api.actions import Action, Principal
from memory_app.api.problems import NotFound
from memory_app.models import MemoryCollection

ALL = frozenset(Action)
OWNER = frozenset({Action.READ, Action.WRITE, Action.REVIEW})
PERMISSIONS: Mapping[str, frozenset[Action]] = {
    "memory_app.view_memory_content": frozenset({Action.READ}),
    "memory_app.write_memory": frozenset({Action.WRITE, Action.REVIEW}),
    "memory_app.operate_memory": frozenset({Action.OPERATE}),
}
"""What each model permission allows, in every collection: it is for the deployment's own staff."""


class AccessPolicy:
    """The default: owners recall, write and review; operating is a permission; a key only narrows.

    A policy of a host's own overrides `user_actions` and `user_collections` together: the one judges a
    collection, the other lists what the first would let through.
    """

    def user_actions(self, user: object, collection: MemoryCollection) -> frozenset[Action]:
        """Return what the user may do to the collection, keys aside."""
        owned = OWNER if collection.owner_id is not None and collection.owner_id == user.pk else frozenset()  # type: ignore[attr-defined]
        return owned.union(*(self._by_permissions(user)))

    def user_collections(self, user: object) -> QuerySet[MemoryCollection]:
        """Return the collections to which the user may do anything."""
        if any(self._by_permissions(user)):
            return MemoryCollection.objects.all()
        return MemoryCollection.objects.filter(owner=user)  # type: ignore[misc]

    def may_create(self, principal: Principal) -> bool:
        """Whether the principal may create collections: Django's add permission, and the scope in a key."""
        allowed = principal.key is None or Action.OPERATE in principal.key.scopes
        return allowed and principal.user.has_perm("memory_app.add_memorycollection")

    def actions(self, principal: Principal, collection: MemoryCollection) -> frozenset[Action]:
        """Return what the principal may do to the collection."""
        granted = self.user_actions(principal.user, collection)
        key = principal.key
        if key is None:
            return granted
        bound = key.collections.filter(pk=collection.pk or 0).exists()
        return granted & frozenset(Action(scope) for scope in key.scopes) if bound else frozenset()

    def collections(self, principal: Principal) -> QuerySet[MemoryCollection]:
        """Return the collections that exist for the principal."""
        found = self.user_collections(principal.user)
        if principal.key is not None:
            found = found.filter(Q(api_keys=principal.key))
        return found

    @staticmethod
    def _by_permissions(user: object) -> list[frozenset[Action]]:
        return [granted for name, granted in PERMISSIONS.items() if user.has_perm(name)]  # type: ignore[attr-defined]


def admit(policy: AccessPolicy, principal: Principal, name: str, action: Action) -> MemoryCollection:
    """Return the collection called `name`, if the principal may do `action` to it.

    Raises:
        NotFound: there is none, or the principal may do nothing to it; both take the same work and say the
            same, so that nobody learns which collections there are.
        PermissionDenied: the principal may do something to it, and not this.
    """
    found = MemoryCollection.objects.filter(name=name).first()
    granted = policy.actions(principal, found or MemoryCollection())
    if found is None or not granted:
        raise NotFound("There is no such collection.", code="collection_not_found")
    if action not in granted:
        raise PermissionDenied(
            f"This needs the {action.value} right on the collection.", code="scope_missing"
        )
    return found
