"""What a collection may be called is decided before any folder is touched."""

from pathlib import Path
from typing import Any

import pytest

from charactermemory.adapters.qdrant.edge import EdgeVectorIndex
from charactermemory.config import validate_collection_name
from charactermemory.errors import ConfigValidationError, OutOfDomain


@pytest.mark.parametrize(
    "name",
    [
        "../x", "A", "con", "", "a" * 129, "prn", "aux", "nul", "com1", "lpt9", "_a", "a.b", "a\\b", "a b", "a\n",
        "é", "١",
    ],
)  # fmt: skip
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(OutOfDomain) as caught:
        validate_collection_name(name)
    assert (caught.value.keys, caught.value.actual) == (("collection_name",), repr(name))


@pytest.mark.parametrize("name", [None, 3, b"a"])
def test_what_is_no_text_is_refused_as_a_name_too(name: Any) -> None:
    with pytest.raises(OutOfDomain, match="collection_name"):
        validate_collection_name(name)


@pytest.mark.parametrize("name", ["a", "0", "com", "com0", "com10", "console", "a_b-c"])
def test_plain_names_are_accepted(name: str) -> None:
    validate_collection_name(name)


@pytest.mark.spec("recall-82")
def test_an_index_is_opened_under_an_allowed_name_only(tmp_path: Path) -> None:
    root = tmp_path / "vectors"
    for name in ("Main", "a/b", "con", "", "-x", "a" * 129):
        with pytest.raises(ConfigValidationError) as caught:
            EdgeVectorIndex(root, name, size=2, fingerprint="test:2")
        assert caught.value.keys == ("collection_name",)
    assert not root.exists()
    allowed = ("a", "0-x_1", "a" * 128)
    for name in allowed:
        EdgeVectorIndex(root, name, size=2, fingerprint="test:2").close()
    assert {folder.name for folder in root.iterdir()} >= set(allowed)
