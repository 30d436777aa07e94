"""Who calls: an API key of our own, or whomever the host's authentication classes find."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from memory_app.api.actions import Principal
from memory_app.models.apikeys import ApiKey

SCHEME = "Bearer"


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer cm_…`, a key made in the admin, by `ApiKey.objects.issue` or by the quickstart."""

    def authenticate(self, request: Request) -> tuple[Any, ApiKey] | None:
        """Return the key's user and the key; None where the header is another scheme's.

        Raises:
            AuthenticationFailed: the key is unknown, wrong, expired or withdrawn; which of these is not said.
        """
        scheme, _space, text = get_authorization_header(request).partition(b" ")
        if scheme.lower() != SCHEME.lower().encode():
            return None
        key = ApiKey.objects.presented(text.strip().decode("ascii", errors="replace"))
        if key is None:
            raise AuthenticationFailed("The API key is not valid.", code="invalid_api_key")
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        """Name the scheme in a 401."""
        return f'{SCHEME} realm="memory"'


def principal_of(request: Request) -> Principal | None:
    """Return who made the request; None for nobody."""
    user = request.user
    if user is None or not user.is_authenticated:
        return None
    return Principal(user, request.auth if isinstance(request.auth, ApiKey) else None)
