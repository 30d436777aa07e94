"""How often one principal may call, by scope."""

from __future__ import annotations

import logging
from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from memory_app.api.authentication import principal_of
from memory_app.api.options import ApiOptions

logger = logging.getLogger(__name__)


class ScopeThrottle(SimpleRateThrottle):
    """Counts in Django's default cache: approximate, and for each process alone where that is local memory.

    Without the cache nothing is counted: a memory that needs no other server is not out because of it.
    """

    def __init__(self) -> None:
        """Read no rate yet: it depends on the operation."""

    def allow_request(self, request: Request, view: Any) -> bool:
        """Tell whether the request may pass; one that is no operation always may."""
        operation = view.operation
        if operation is None or operation.public:
            return True
        self.scope = operation.scope
        self.rate = ApiOptions.current().throttle_rates.get(self.scope)
        if self.rate is None:
            return True
        self.num_requests, self.duration = self.parse_rate(self.rate)
        try:
            return bool(super().allow_request(request, view))
        except Exception as error:  # cache backends have no error in common; its text may hold an address
            logger.warning("requests are not counted, for the cache failed: %s", type(error).__name__)
            return True

    def get_cache_key(self, request: Request, view: Any) -> str:
        """Count by principal; whoever is not signed in is refused elsewhere."""
        principal = principal_of(request)
        ident = principal.id if principal else f"address:{self.get_ident(request)}"
        return self.cache_format % {"scope": self.scope, "ident": ident}
