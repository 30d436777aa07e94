"""The API described: OpenAPI 3.1, made by drf-spectacular from the declared operations and the core's models."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from types import UnionType
from typing import Any, get_args

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.settings import patched_settings
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from charactermemory import __version__
from charactermemory.ids import ObjectType
from memory_app.api.problems import MEDIA_TYPE, Problem, reason

URLCONF = "memory_app.urls"
REF = "#/components/schemas/{model}"

TAGS = {
    "Collections": "A collection is one character's memory, and the boundary between tenants.",
    "Remember": "From what happened to what is stored: in one call, or by a plan that can be looked at first.",
    "Recall": "What a person in this situation would have in mind.",
    "Revise": "Correct and forget; nothing is deleted or rewritten.",
    "Objects": "Stored objects by id, their history, and the host's own keys for them.",
    "Chat": "The talk itself: threads, their messages, and the window that a model would be sent.",
    "Operate": "For operators: browse, statistics and repairs.",
    "Service": "About the server itself.",
}

SETTINGS: dict[str, Any] = {
    "TITLE": "Character memory",
    "DESCRIPTION": (
        "The memory of an AI companion. Bodies are JSON in UTF-8; unknown fields, loose types and times without "
        "an offset are refused. Every failure is a problem (RFC 9457) with a stable `code` and the `request_id` "
        "that the server's log has. 400: the request does not fit this schema. 422: it fits, and cannot be done."
    ),
    "VERSION": __version__,
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "",
    "SERVERS": [{"url": "/api/v1"}],
    "TAGS": [{"name": name, "description": text} for name, text in TAGS.items()],
    "PREPROCESSING_HOOKS": [],
    "POSTPROCESSING_HOOKS": [],
    "APPEND_COMPONENTS": {
        "securitySchemes": {
            "ApiKey": {"type": "http", "scheme": "bearer", "description": "An API key: `cm_...`"},
            "Session": {"type": "apiKey", "in": "cookie", "name": "sessionid"},
        },
        "headers": {
            "RequestId": {
                "description": "The request's name: the one it was sent with, or a new one.",
                "schema": {"type": "string"},
                "required": True,
            }
        },
    },
}
"""Ours alone: the host's `SPECTACULAR_SETTINGS` describe the host's API."""

_PATH: Mapping[str, dict[str, Any]] = {
    "collection": {"schema": {"type": "string", "maxLength": 128}, "description": "Name of the collection."},
    "object_type": {"schema": {"type": "string", "enum": [item.value for item in ObjectType]}},
    "object_id": {"schema": {"type": "string", "format": "uuid"}},
    "key": {
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "description": "The host's own key; `/` and `%` in it are percent-encoded.",
    },
    "thread": {
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "description": "Id of the thread.",
    },
    "repair": {"schema": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}},
}
_KEY_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A name for this request; repeating it with the same name answers what the first run did.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}


class Generator(SchemaGenerator):
    """Adds the core's models, each under its class name."""

    def get_schema(self, request: Any = None, public: bool = False) -> dict[str, Any]:
        """Return the whole description."""
        schema: dict[str, Any] = super().get_schema(request, public)
        models: dict[type[BaseModel], None] = {Problem: None}
        for _path, _regex, method, callback in self.endpoints:
            for model in _models(getattr(callback.cls, method.lower()).operation):
                models[model] = None
        _refs, made = models_json_schema(
            [(model, "validation") for model in models], ref_template=REF, schema_generator=_Untitled
        )
        schema["components"]["schemas"] = dict(sorted(made["$defs"].items()))
        return schema


class OperationSchema(AutoSchema):
    """Describes a method from its declared operation."""

    @property
    def operation(self) -> Any:
        """The declaration."""
        return getattr(self.view, self.method.lower()).operation

    def get_operation_id(self) -> str:
        """Return its declared name."""
        name: str = self.operation.id
        return name

    def get_tags(self) -> list[str]:
        """Return its chapter."""
        return [self.operation.tag]

    def get_summary(self) -> str:
        """Return the first line of the method's docstring."""
        return self._words()[0]

    def get_description(self) -> str:
        """Return the rest of it, and the right that is needed."""
        text = self._words()[1]
        action = self.operation.action
        right = f"Needs the `{action.value}` right on the collection." if action else ""
        return "\n\n".join(part for part in (text, right) if part)

    def get_auth(self) -> list[dict[str, list[str]]]:
        """Return who may make it."""
        return [] if self.operation.public else [{"ApiKey": []}, {"Session": []}]

    def _words(self) -> tuple[str, str]:
        doc = (getattr(self.view, self.method.lower()).__doc__ or "").strip()
        first, _blank, rest = doc.partition("\n\n")
        return " ".join(first.split()), " ".join(rest.split())

    def _get_parameters(self) -> list[dict[str, Any]]:
        operation = self.operation
        found = [
            {"name": name, "in": "path", "required": True, **described}
            for name, described in _PATH.items()
            if "{" + name + "}" in self.path
        ]
        if operation.keyed:
            found.append(_KEY_HEADER)
        if operation.query:
            found += _query_parameters(operation.query)
        return found

    def _get_request_body(self, direction: Any = "request") -> dict[str, Any] | None:
        body = self.operation.body
        if body is None:
            return None
        return {"required": True, "content": {"application/json": {"schema": _reference(body)}}}

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        operation = self.operation
        bodies: dict[str, Any] = {}
        for status, model in sorted(operation.answers.items()):
            bodies[str(status)] = _response(status, {"application/json": model})
        for status in sorted(self._failures()):
            bodies[str(status)] = _response(status, {MEDIA_TYPE: Problem})
        return bodies

    def _failures(self) -> Iterator[int]:
        operation = self.operation
        yield from {400, 500, *operation.errors} - operation.answers.keys()
        if not operation.public:
            yield from {401, 403, 429, 503} - set(operation.errors)
        if operation.action:
            yield from {404, 409} - set(operation.errors)
        if operation.body:
            yield from (413, 415)
        if operation.keyed and 422 not in operation.errors:
            yield 422


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        """Titles would only repeat the names."""
        return False

    def tagged_union_schema(self, schema: Any) -> dict[str, Any]:
        """A union is read by its tag, also where the tagged model by itself has a default for it."""
        made = super().tagged_union_schema(schema)
        return made | {"required": [made["discriminator"]["propertyName"]]}


_lock = threading.Lock()


@cache
def description() -> str:
    """Return the description of the API as JSON text, without its server."""
    with _lock, patched_settings(SETTINGS):  # patches a global
        made = Generator(urlconf=URLCONF).get_schema(request=None, public=True)
    return json.dumps(made, ensure_ascii=False)


def _models(operation: Any) -> Iterator[type[BaseModel]]:
    for model in (operation.body, *operation.answers.values()):
        if model is not None:
            yield from _options(model)


def _options(model: Any) -> tuple[type[BaseModel], ...]:
    if isinstance(model, UnionType):
        return get_args(model)
    return model if isinstance(model, tuple) else (model,)


def _reference(model: Any) -> dict[str, Any]:
    references = [{"$ref": REF.format(model=item.__name__)} for item in _options(model)]
    return references[0] if len(references) == 1 else {"oneOf": references}


def _response(status: int, content: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": reason(status),
        "headers": {"X-Request-ID": {"$ref": "#/components/headers/RequestId"}},
    }
    if status != HTTPStatus.NO_CONTENT:
        described["content"] = {
            media: {"schema": {"type": "object"} if model is None else _reference(model)}
            for media, model in content.items()
        }
    return described


def _query_parameters(query: type[BaseModel]) -> list[dict[str, Any]]:
    described = query.model_json_schema(schema_generator=_Untitled)
    found = []
    for name, schema in described["properties"].items():
        shown = _inlined(schema, described.get("$defs", {}))
        text = shown.pop("description", None)
        parameter = {"name": name, "in": "query", "required": False, "schema": shown}
        found.append(parameter | ({"description": text} if text else {}))
    return found


def _inlined(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema by itself; an absent parameter is no null."""
    shown = {key: value for key, value in schema.items() if not (key == "default" and value is None)}
    options = [item for item in shown.pop("anyOf", ()) if item != {"type": "null"}]
    for option in options:
        shown |= option
    reference = shown.pop("$ref", None)
    if reference:
        target = definitions[reference.rsplit("/", 1)[1]]
        shown |= {key: value for key, value in target.items() if key != "description"}
    shown.pop("title", None)
    return shown
