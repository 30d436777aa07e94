"""What the README says happens, and what it and the documents name is there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.management import get_commands, load_command_class
from django.db import transaction

from config.environment import memory_settings
from memory_app.checks import Id
from memory_app.conf import known_keys
from memory_app.runtime import close_memories, get_memory

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "examples").rglob("*.md"))

everywhere = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced examples of one language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


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
    (example,) = blocks(ROOT / "README.md", "python")
    assert len([line for line in example.splitlines() if line.strip()]) == 10
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out == "Hanne's harmonium still lacks its low F sharp.\n"
    recalled = get_memory("mees").retrieve("Which note is the harmonium missing?")
    assert recalled.pack.salient_observations == ()


def test_the_example_of_a_correction_runs_as_it_stands(
    embedded: None, capsys: pytest.CaptureFixture[str]
) -> None:
    example, *_ = blocks(ROOT / "docs" / "concepts.md", "python")
    exec(compile(example, "concepts.md", "exec"), {})
    assert capsys.readouterr().out == "['Ben likes tomatoes, but only cooked.']\n0\n"


def test_the_example_of_several_people_tells_who_said_what_and_first_what_was_asked_for(
    embedded: None, capsys: pytest.CaptureFixture[str]
) -> None:
    _, example, *_ = blocks(ROOT / "docs" / "concepts.md", "python")
    exec(compile(example, "concepts.md", "exec"), {})
    told = capsys.readouterr().out
    assert 0 <= told.find("Bea: My birthday is on 9 June.") < told.find("Ann: My birthday is on 3 April.")


def test_a_rollback_takes_back_what_was_to_be_remembered_after_the_commit_alone(embedded: None) -> None:
    *_, example, _ = blocks(ROOT / "docs" / "concepts.md", "python")
    memory = get_memory("ada")

    def request(fails: bool) -> list[str]:
        with suppress(ZeroDivisionError), transaction.atomic():
            outcome = memory.remember("The kettle sings.")
            assert outcome.pending and not outcome.complete
            exec(compile(example, "concepts.md", "exec"), {})
            if fails:
                raise ZeroDivisionError
        return [item.text for item in memory.retrieve("tomato seeds, kettle").pack.salient_observations]

    assert request(fails=True) == ["The kettle sings."]
    assert "Ben ordered tomato seeds." in request(fails=False)


def test_the_example_of_async_code_runs_as_it_stands(embedded: None, closing_threads: None) -> None:
    *_, example = blocks(ROOT / "docs" / "concepts.md", "python")
    names: dict[str, Any] = {}
    exec(compile(example, "concepts.md", "exec"), names)
    get_memory("ada").remember("The kettle sings.")
    assert "The kettle sings." in asyncio.run(names["answer"]("kettle"))


def test_the_readme_leads_to_every_page() -> None:
    linked = {(ROOT / target).resolve() for target in re.findall(r"\]\(([^)#:]+)\)", README)}
    assert {*(ROOT / "docs").glob("*.md"), ROOT / "docs" / "decisions" / "README.md"} <= linked
    decisions = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in decisions


@everywhere
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        meant = (page.parent / target) if target else page
        assert meant.exists(), target
        assert not anchor or anchor in anchors(meant), f"{target}#{anchor}"


@everywhere
def test_what_is_installed_and_called_exists_with_the_options_named(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"pip install -r (\S+)", text):
        assert (ROOT / name).is_file()
    for module in re.findall(r"python -m ((?:benchmarks|memory_app)[\w.]*)", text):
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").is_file(), module
    commands = get_commands()
    for name, rest in re.findall(r"manage\.py ([a-z_]+)([^`\n#&)]*)", text):
        assert name in commands, name
        parser = load_command_class(commands[name], name).create_parser("manage.py", name)
        for option in re.findall(r"(?<!\w)(--[a-z-]+)", rest):
            assert option in parser._option_string_actions, f"{name} {option}"


@everywhere
def test_settings_and_checks_that_are_named_exist(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    variables = {f"MEMORY_{key}" for key in known_keys()} | memory_settings({}, tmp_path).keys()
    named = re.findall(r"`((?:MEMORY|RETRIEVAL|REPAIR|EMBEDDING|OXIGRAPH|VECTOR|SELECTIVITY)_[A-Z_]+)`", text)
    assert set(named) <= known_keys() | variables
    for code in re.findall(r"`memory_app\.([EW]\d{3})`", text):
        assert code in Id.__members__


@everywhere
def test_pages_name_no_place_of_one_machine(page: Path) -> None:
    assert not re.search(r"(?<![\w.])/(?:root|home|work|tmp)/", page.read_text(encoding="utf-8"))
