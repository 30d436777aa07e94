"""The page on settings, the reference project and the adapters know the same settings as the core."""

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from charactermemory.adapters.embedding import openai
from charactermemory.adapters.qdrant import lexical
from charactermemory.config import Settings, describe_settings
from charactermemory.config.settings import OPENAI_MODELS, Language
from charactermemory.errors import OutOfDomain
from config.environment import memory_settings
from memory_app.conf import AppSettings, known_keys
from memory_app.reference import checks_page, describe_app_settings

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "memory_app.reference", "settings"],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=True,
        text=True,
        encoding="utf-8",
    ).stdout
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == printed, "run: python -m memory_app.reference settings > docs/settings.md"


def test_every_setting_is_described() -> None:
    docs = {doc.key: doc for doc in describe_settings()}
    assert set(docs) == {name.upper() for name in Settings.model_fields}
    assert all(doc.meaning.endswith(".") and "|" not in doc.meaning for doc in docs.values())
    assert docs["VECTOR_STORE_MODE"].type == "`embedded`, `service`"
    assert docs["OXIGRAPH_PATH"].type == "path"
    assert docs["OXIGRAPH_PATH"].default == ""
    assert docs["RETRIEVAL_FANOUT_ABOUT_ENTITY_DERIVED_MEMORY_MAX"].default == "20"
    assert docs["FENCE_SECRET"].type == "secret text"


def test_the_reference_project_passes_every_setting_on(tmp_path: Path) -> None:
    keys = {doc.key for doc in describe_settings()}
    environment = dict.fromkeys(keys - {"LANGUAGE"}, "x") | {"MEMORY_LANGUAGE": "x", "PATH": "x"}
    assert memory_settings(environment, tmp_path) == dict.fromkeys(keys, "x")


def test_the_reference_project_passes_the_apps_settings_on_too(tmp_path: Path) -> None:
    keys = {doc.key for doc in describe_app_settings()} - {"API"}
    environment = {f"MEMORY_{key}": "x" for key in keys} | dict.fromkeys(keys - {"EMBEDDING_PROVIDER"}, "y")
    made = memory_settings(environment, tmp_path)
    assert {key: made[key] for key in keys} == dict.fromkeys(keys, "x")


def test_every_setting_of_the_app_is_described() -> None:
    docs = {doc.key: doc for doc in describe_app_settings()}
    assert {doc.upper() for doc in AppSettings.model_fields} - {"CORE"} == set(docs)
    assert all(doc.meaning.endswith(".") and "|" not in doc.meaning for doc in docs.values())
    assert docs["STATISTICS"] == ("STATISTICS", "`orm`, `core`", "orm", docs["STATISTICS"].meaning)
    assert not known_keys() - set(docs) - {doc.key for doc in describe_settings()}


def test_the_page_of_checks_is_up_to_date() -> None:
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    assert page == checks_page(), "run: python -m memory_app.reference checks > docs/checks.md"


def test_the_reference_project_starts_with_settings_that_can_be_read(tmp_path: Path) -> None:
    settings = Settings.from_mapping(memory_settings({}, tmp_path))
    settings.require_writer_lock()
    settings.require_embedding()
    assert settings.oxigraph_path == tmp_path / "oxigraph"


def test_the_languages_are_those_of_the_word_search() -> None:
    for language in get_args(Language):
        lexical.Lexical(language)
    for language in ("polish", "korean", "unknown"):
        with pytest.raises(OutOfDomain):
            lexical.Lexical(language)
    assert Settings.model_fields["language"].default == lexical.DEFAULT_LANGUAGE


def test_the_models_are_those_of_the_openai_adapter() -> None:
    assert set(OPENAI_MODELS) == set(openai.MODELS)
