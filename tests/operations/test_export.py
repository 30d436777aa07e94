"""What is exported comes back whole, byte for byte."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import RdfFormat, parse

from charactermemory import CharacterMemory
from memory_app import runtime
from memory_app.operations import exporting, importing
from memory_app.operations.opening import Refused
from tests.operations.conftest import Manage


def exported(manage: Manage, folder: Path) -> Path:
    manage("memory_export", str(folder), collections=["shed"])
    return folder / "shed.manifest.json"


def elsewhere(mapping: dict[str, Any], tmp_path: Path) -> None:
    """Go on with empty stores, as another deployment has them."""
    runtime.close_memories()
    for name in ("oxigraph", "vectors"):
        shutil.rmtree(tmp_path / name)


def test_an_export_is_trig_with_a_manifest_that_fits(
    shed: CharacterMemory, manage: Manage, tmp_path: Path
) -> None:
    answer = manage("memory_export", str(tmp_path / "out"), json=True)
    (manifest,) = answer["exports"]
    data = (tmp_path / "out" / "shed.trig").read_bytes()
    assert manifest["sha256"] == hashlib.sha256(data).hexdigest()
    assert manifest["size"] == len(data)
    assert manifest["head"] == 4
    quads = list(parse(data, format=RdfFormat.TRIG))
    assert len(quads) == manifest["triples"]
    assert {str(quad.graph_name) for quad in quads} == {"<urn:charactermemory:collection:shed>"}
    assert json.loads((tmp_path / "out" / "shed.manifest.json").read_text()) == manifest
    assert not list((tmp_path / "out").glob("*.part"))


def test_a_round_trip_is_equal_to_the_byte_and_serves(
    shed: CharacterMemory, manage: Manage, mapping: dict[str, Any], tmp_path: Path
) -> None:
    manifest = exported(manage, tmp_path / "first")
    before = shed.retrieve("Who numbered the reeds?").pack
    elsewhere(mapping, tmp_path)

    answer = manage("memory_import", str(manifest), json=True)
    assert answer["complete"] is True
    assert answer["head"] == 4
    exported(manage, tmp_path / "second")
    for name in ("shed.trig", "shed.manifest.json"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    assert manage("memory_verify", json=True)["differences"] == 0
    memory = runtime.get_memory("shed")
    assert memory.retrieve("Who numbered the reeds?").pack == before
    assert memory.remember("It goes on.").complete
    assert memory.stores.graph.head() == 5


def test_two_exports_of_one_state_are_equal(shed: CharacterMemory, manage: Manage, tmp_path: Path) -> None:
    exported(manage, tmp_path / "a")
    exported(manage, tmp_path / "b")
    assert (tmp_path / "a/shed.trig").read_bytes() == (tmp_path / "b/shed.trig").read_bytes()


def test_an_export_may_take_another_name(shed: CharacterMemory, manage: Manage, tmp_path: Path) -> None:
    manifest = exported(manage, tmp_path / "out")
    manage("memory_import", str(manifest), collection="barn")
    manage("memory_export", str(tmp_path / "barn"), collections=["barn"])
    triples = (tmp_path / "out/shed.trig").read_bytes().split(b"\n")[1:]
    assert (tmp_path / "barn/barn.trig").read_bytes().split(b"\n")[1:] == triples
    assert manage("memory_verify", collections=["barn"], json=True)["differences"] == 0


def test_a_collection_that_is_not_empty_is_refused_and_stays(
    shed: CharacterMemory, manage: Manage, tmp_path: Path
) -> None:
    manifest = exported(manage, tmp_path / "out")
    shed.remember("One more.")
    _, problem = manage("memory_import", str(manifest), fails=True)
    assert "collection shed is not empty (it has 5 commits)" in problem
    assert shed.stores.graph.head() == 5


def test_a_file_that_was_changed_is_refused(shed: CharacterMemory, manage: Manage, tmp_path: Path) -> None:
    manifest = exported(manage, tmp_path / "out")
    file = tmp_path / "out/shed.trig"
    file.write_bytes(file.read_bytes().replace(b"bellows", b"bellowz"))
    _, problem = manage("memory_import", str(manifest), collection="barn", fails=True)
    assert "SHA-256 differs" in problem
    assert "barn" not in manage("memory_collections")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}'])
def test_what_is_no_manifest_is_refused(mapping: dict[str, Any], tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.manifest.json"
    path.write_text(text)
    for given in (path, tmp_path):
        with pytest.raises(Refused, match=r"is no manifest .*; name the NAME\.manifest\.json"):
            importing.read_manifest(given)


def test_a_manifest_of_a_later_version_is_refused(
    shed: CharacterMemory, manage: Manage, tmp_path: Path
) -> None:
    manifest = exported(manage, tmp_path / "out")
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(Refused, match="format 2 is not 1"):
        importing.read_manifest(manifest)


def test_what_a_file_says_is_never_run_as_an_update(mapping: dict[str, Any], tmp_path: Path) -> None:
    data = b'<urn:g> {\n<urn:a> <urn:b> "x" . } } ; DROP ALL ; INSERT DATA { GRAPH <urn:g> { \n}\n'
    (tmp_path / "x.trig").write_bytes(data)
    manifest = exporting.Manifest(1, "shed", "x.trig", hashlib.sha256(data).hexdigest(), len(data), 1, 1, "v")
    (tmp_path / "x.manifest.json").write_text(manifest.to_json())
    with pytest.raises(Exception, match="no TriG"):
        importing.import_export(tmp_path / "x.manifest.json")


def test_a_load_that_was_cut_off_is_repeated(
    shed: CharacterMemory, manage: Manage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from charactermemory.adapters.oxigraph import loading

    manifest = exported(manage, tmp_path / "out")
    monkeypatch.setattr(loading, "CHUNK_TRIPLES", 20)
    insert, calls = loading._insert, []

    def cut_off(connection, graph, triples):  # type: ignore[no-untyped-def]
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        insert(connection, graph, triples)

    monkeypatch.setattr(loading, "_insert", cut_off)
    with pytest.raises(KeyboardInterrupt):
        importing.import_export(manifest, "barn")
    assert runtime.get_memory("barn").stores.graph.head() == 0
    assert importing.import_export(manifest, "barn").complete
    manage("memory_export", str(tmp_path / "barn"), collections=["barn"])
    assert exporting.Manifest(**json.loads((tmp_path / "barn/barn.manifest.json").read_text())).triples > 0


def test_an_export_overwrites_nothing(shed: CharacterMemory, manage: Manage, tmp_path: Path) -> None:
    exported(manage, tmp_path / "out")
    answer, problem = manage("memory_export", str(tmp_path / "out"), json=True, fails=True)
    assert answer["exports"] == []
    assert "is there already" in problem


def test_half_an_export_does_not_stand_in_the_way_of_the_next(
    shed: CharacterMemory, manage: Manage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(draft: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    with monkeypatch.context() as patch:
        patch.setattr(exporting.os, "replace", full)
        manage("memory_export", str(tmp_path / "out"), fails=True)
    assert list((tmp_path / "out").iterdir()) == []
    exported(manage, tmp_path / "out")
