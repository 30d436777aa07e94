"""Content parts of the two APIs, so that a thread begun with one can go on with the other."""

from __future__ import annotations

from typing import Any


def to_chat_parts(content: Any) -> Any:
    """Return content for chat completions; parts it knows, and unknown ones, are left as they are."""
    if not isinstance(content, list):
        return content
    return [_to_chat(part) if isinstance(part, dict) else part for part in content]


def to_response_parts(content: Any, role: str) -> Any:
    """Return content for the responses API; parts it knows, and unknown ones, are left as they are."""
    if not isinstance(content, list):
        return content
    kind = "output_text" if role == "assistant" else "input_text"
    return [_to_response(part, kind) if isinstance(part, dict) else part for part in content]


def _to_chat(part: dict[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    if kind in ("input_text", "output_text"):
        return {"type": "text", "text": part.get("text", "")}
    if kind == "input_image" and part.get("image_url"):
        image = {"url": part["image_url"]}
        if part.get("detail"):
            image["detail"] = part["detail"]
        return {"type": "image_url", "image_url": image}
    if kind == "input_file":
        return {"type": "file", "file": {key: value for key, value in part.items() if key != "type"}}
    return part


def _to_response(part: dict[str, Any], text_kind: str) -> dict[str, Any]:
    kind = part.get("type")
    if kind == "text":
        return {"type": text_kind, "text": part.get("text", "")}
    if kind == "image_url" and isinstance(part.get("image_url"), dict):
        image = part["image_url"]
        return {"type": "input_image", "image_url": image.get("url"), "detail": image.get("detail", "auto")}
    if kind == "file" and isinstance(part.get("file"), dict):
        return {"type": "input_file", **part["file"]}
    return part
