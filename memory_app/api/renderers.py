"""The form of answers: the core's models on the wire, None left out, UTF-8 unescaped."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
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


class Unread(BaseParser):
    """Leaves the body where it is: views read it as it came. Session authentication looks for a form in it."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> dict[str, Any]:
        """Return nothing."""
        return {}


class OnlyJSON(BaseContentNegotiation):
    """There is one form; whatever a client accepts, it gets that (RFC 9110 §12.4.1 allows it)."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        """Return the one parser."""
        return parsers[0]

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> tuple[Any, str]:
        """Return the one renderer."""
        return renderers[0], renderers[0].media_type
