"""Writing answers: the core's models in their wire form, None left out, UTF-8 unescaped."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer


class ModelRenderer(BaseRenderer):
    """JSON of a model, or of plain values."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        """Return the bytes of the answer."""
        if data is None:
            return b""
        if isinstance(data, BaseModel):
            return data.model_dump_json(exclude_none=True).encode()
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


class OnlyJSON(BaseContentNegotiation):
    """There is one form; whatever a client accepts, it gets that (RFC 9110 §12.4.1 allows it)."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        """Return no parser: views read the raw body."""
        return None

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> tuple[Any, str]:
        """Return the one renderer."""
        return renderers[0], renderers[0].media_type
