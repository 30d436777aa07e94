from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from charactermemory import CharacterMemory
from charactermemory.adapters.embedding.hashing import HashingEmbedding
from charactermemory.errors import EmbeddingError
from memory_app.runtime import open_memory
from tests.commands.conftest import Manage

DATA = Path(__file__).parents[1] / "data"


def chat(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def line(session: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"session": session, "time": "2026-03-01T09:00:00+01:00", "speaker": "Ada", "text": text} | fields


def test_it_says_what_was_new_and_importing_again_finds_everything(manage: Manage) -> None:
    path = DATA / "companion_chat.jsonl"
    out, err = manage("import_chat", path, "--collection", "chat", "--format", "jsonl")
    assert out.splitlines()[1] == "60 turns: 60 new, 0 already there" and err == ""
    out, _ = manage("import_chat", path, "--collection", "chat", "--format", "jsonl")
    assert out.splitlines()[1] == "60 turns: 0 new, 60 already there"
    assert ": 0 new, " in out.splitlines()[0]


def test_a_grown_file_brings_its_new_turns(manage: Manage, tmp_path: Path) -> None:
    path = chat(tmp_path / "chat.jsonl", line("a", "One."))
    out, _ = manage("import_chat", path, collection="chat", format="jsonl")
    assert out == "1 session: 1 new, 0 already there\n1 turn: 1 new, 0 already there\n"
    chat(path, line("a", "One."), line("b", "Two."), line("a", "Three."))
    out, _ = manage("import_chat", path, collection="chat", format="jsonl")
    assert out == "2 sessions: 1 new, 1 already there\n3 turns: 2 new, 1 already there\n"


def test_a_locomo_conversation_is_imported(manage: Manage) -> None:
    out, _ = manage("import_chat", DATA / "companion_locomo.json", collection="chat", format="locomo")
    assert out == "9 sessions: 9 new, 0 already there\n157 turns: 157 new, 0 already there\n"


def test_a_bad_line_is_named_and_nothing_is_made(manage: Manage, tmp_path: Path) -> None:
    path = chat(tmp_path / "chat.jsonl", line("a", "One."), line("a", "Two.", colour="red"))
    with pytest.raises(CommandError, match=r"^line 2, field 'colour': is not a key of this format"):
        manage("import_chat", path, collection="chat", format="jsonl")
    assert not (tmp_path / "oxigraph").exists()


def test_a_changed_chat_is_refused_by_turn(manage: Manage, tmp_path: Path) -> None:
    manage("import_chat", chat(tmp_path / "a", line("s", "One.")), collection="chat", format="jsonl")
    with pytest.raises(CommandError, match="turn '0' of session 's' is stored with another text"):
        manage("import_chat", chat(tmp_path / "b", line("s", "Two.")), collection="chat", format="jsonl")


JSONL, LOCOMO = str(DATA / "companion_chat.jsonl"), str(DATA / "companion_locomo.json")


@pytest.mark.parametrize(
    ("path", "format", "options", "message"),
    [
        ("missing.jsonl", "jsonl", {}, "missing.jsonl cannot be read: No such"),
        (".", "jsonl", {}, "cannot be read: Is a directory"),
        ("/dev/null", "jsonl", {}, "/dev/null holds no turn; nothing was imported"),
        (JSONL, "jsonl", {"collection": "Not A Name"}, "collection_name"),
        (JSONL, "jsonl", {"conversation": "x"}, "leave it out for jsonl"),
        (LOCOMO, "locomo", {"conversation": "x"}, "no conversation 'x'; choose from: companion-1"),
        (LOCOMO, "jsonl", {}, "line 1: is a list|line 1: is not JSON"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_one_line(
    manage: Manage, tmp_path: Path, path: str, format: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(CommandError, match=message):
        manage("import_chat", path, **{"collection": "chat", "format": format} | options)
    assert not (tmp_path / "oxigraph").exists()


def test_what_could_not_be_indexed_is_told_and_a_second_import_repairs_it(
    manage: Manage, mapping: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = HashingEmbedding.bulk_generate_embeddings

    def fail(self: Any, texts: Any) -> Any:
        raise EmbeddingError("connection")

    monkeypatch.setattr(HashingEmbedding, "bulk_generate_embeddings", fail)
    path = DATA / "companion_chat.jsonl"
    out, err = manage("import_chat", path, collection="chat", format="jsonl")
    assert "60 turns: 60 new" in out and "stored but not indexed; import again" in err
    monkeypatch.setattr(HashingEmbedding, "bulk_generate_embeddings", embed)
    out, err = manage("import_chat", path, collection="chat", format="jsonl")
    assert "60 turns: 0 new" in out and err == ""
    with open_memory("chat") as memory:
        assert memory.upkeep.verify().differences == 0


def test_ctrl_c_is_told_in_one_line_and_the_import_goes_on(
    manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, committed = DATA / "companion_chat.jsonl", []
    commit = CharacterMemory.commit

    def interrupted(self: CharacterMemory, *arguments: Any) -> Any:
        if committed:
            raise KeyboardInterrupt
        committed.append(commit(self, *arguments))
        return committed[0]

    monkeypatch.setattr("memory_app.chat_import.importer.BATCH_OBJECTS", 30)
    monkeypatch.setattr(CharacterMemory, "commit", interrupted)
    with pytest.raises(CommandError, match="stopped; what was done stays") as caught:
        manage("import_chat", path, collection="chat", format="jsonl")
    assert caught.value.returncode == 130
    monkeypatch.setattr(CharacterMemory, "commit", commit)
    out, _ = manage("import_chat", path, collection="chat", format="jsonl")
    assert committed and "60 turns: 60 new" not in out and "60 turns: 0 new" not in out
