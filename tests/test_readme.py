"""What the README says happens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_app.runtime import close_memories, get_memory

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def embedded(tmp_path: Path, settings: Any, transactional_db: None) -> Iterator[None]:
    settings.CHARACTER_MEMORY = {
        "OXIGRAPH_PATH": str(tmp_path / "oxigraph"),
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
    }
    yield
    close_memories()


def test_the_example_for_hosts_runs_as_it_stands(embedded: None, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) == 10
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out == "Hanne's harmonium still lacks its low F sharp.\n"
    recalled = get_memory("mees").retrieve("Which note is the harmonium missing?")
    assert recalled.pack.salient_observations == ()


def test_its_two_lines_install_what_is_there_and_name_commands_that_exist() -> None:
    for name in re.findall(r"pip install -r (\S+)", README):
        assert (ROOT / name).is_file()
    for text in (README, (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")):
        for command in re.findall(r"manage\.py (\w+)", text):
            assert (ROOT / "memory_app" / "management" / "commands" / f"{command}.py").is_file()


def test_every_link_leads_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
