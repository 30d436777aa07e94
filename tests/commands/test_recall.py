from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.core.management.color import no_style

from charactermemory import (
    CommitOptions,
    DerivedMemoryDraft,
    DerivedType,
    EpisodeDraft,
    ForgetMemoryDraft,
    ObservationDraft,
    RememberInput,
    RememberOptions,
    RetrievalContext,
    Scene,
)
from charactermemory.revise.drafts import ForgetCascade
from memory_app.models import MemoryCollection
from memory_app.presentation import recollect
from memory_app.runtime import open_memory
from memory_app.terminal import Layout, plain
from tests.commands.conftest import Manage

ROOT = Path(__file__).parents[2]


@pytest.fixture
def harmonium(mapping: dict[str, str]) -> dict[str, str]:
    """A memory of five utterances about a harmonium, one belief superseded and one forgotten."""
    with open_memory("shed") as memory:
        said = [f"The harmonium in the shed lacks reed number {n}." for n in range(5)]
        old = DerivedMemoryDraft.new(DerivedType.CLAIM, "The harmonium lacks nine reeds.")
        gone = DerivedMemoryDraft.new(DerivedType.CLAIM, "The harmonium was stolen, whispers a neighbour.")
        outcome = memory.remember(
            RememberInput(
                episode=EpisodeDraft.new("An evening with the harmonium."),
                observations=tuple(map(ObservationDraft.new, said)),
                derived_memory_drafts=(old, gone),
            )
        )
        beliefs = [ref for ref in outcome.persisted_object_ids if ref.object_type == "derived_memory"]
        new = DerivedMemoryDraft(
            derived_type=DerivedType.CLAIM, text="The harmonium lacks one reed.", supersedes=(beliefs[0].id,)
        )
        memory.remember(RememberInput.new("Eight reeds of the harmonium came.").with_derived_memory(new))
        memory.forget(ForgetMemoryDraft.suppress(beliefs[1], "it was gossip"))
    return mapping


def test_it_shows_what_came_back_why_and_what_was_left_out_and_why(
    harmonium: dict[str, str], manage: Manage
) -> None:
    out, err = manage("recall", "What does the harmonium lack?", collection="shed")
    lines = [line.strip() for line in out.splitlines()]
    assert "What does the harmonium lack?" in lines[0] and lines[0].endswith("shed")
    assert any(line.startswith("claim") and "lacks one reed" in line for line in lines)
    assert any("because of the topic" in line for line in lines)
    left_out = lines[lines.index("Left out") :]
    assert any(line.startswith("superseded") and "lacks nine reeds" in line for line in left_out)
    assert "now: The harmonium lacks one reed." in left_out
    assert any(line.startswith("suppressed") and "1 belief" in line for line in left_out)
    assert "stolen" not in out and err == ""


def test_what_took_a_beliefs_place_and_was_forgotten_is_not_told(
    harmonium: dict[str, str], manage: Manage
) -> None:
    with open_memory("shed") as memory:
        found = memory.retrieve("harmonium").pack.derived_memories
        (new,) = (item.memory.ref for item in found if "one reed" in item.memory.text)
        memory.forget(ForgetMemoryDraft.suppress(new, "it was wrong too"))
    out, _ = manage("recall", "What does the harmonium lack?", collection="shed")
    left_out = [line.strip() for line in out.splitlines()]
    assert any(line.startswith("superseded") and "lacks nine reeds" in line for line in left_out)
    assert "what took its place was forgotten" in left_out
    assert "one reed" not in out


def test_limit_bounds_every_section(harmonium: dict[str, str], manage: Manage) -> None:
    shown = {n: manage("recall", "harmonium", collection="shed", limit=n)[0] for n in (1, 4)}
    said = {n: sum(line.startswith("  observation") for line in out.splitlines()) for n, out in shown.items()}
    assert said == {1: 1, 4: 4}
    assert "no room left" in shown[1]


def test_json_is_the_whole_outcome(harmonium: dict[str, str], manage: Manage) -> None:
    plainly = json.loads(manage("recall", "harmonium", collection="shed", json=True, limit=2)[0])
    assert len(plainly["pack"]["salient_observations"]) == 2
    assert plainly["rationale"]["lifecycle_omission_count"] >= 2 and "trace" not in plainly
    traced = json.loads(manage("recall", "harmonium", collection="shed", json=True, trace=True, limit=2)[0])
    assert traced.pop("trace")["vector_candidates"]
    assert traced == plainly


def test_trace_tells_the_steps(harmonium: dict[str, str], manage: Manage) -> None:
    out, _ = manage("recall", "harmonium", collection="shed", trace=True)
    steps = out[out.index("Steps\n") :]
    assert "searched" in steps and "hits, the best" in steps and "expanded" in steps


def test_an_unknown_collection_is_refused_with_those_there_are_and_nothing_is_made(
    harmonium: dict[str, str], manage: Manage
) -> None:
    with pytest.raises(CommandError, match="no collection is called 'shedd'; known: shed"):
        manage("recall", "harmonium", collection="shedd")
    assert os.listdir(harmonium["OXIGRAPH_PATH"]) == ["shed"]
    assert os.listdir(harmonium["VECTOR_STORE_PATH"]) == ["shed"]


def test_what_is_not_indexed_yet_is_told(harmonium: dict[str, str], manage: Manage) -> None:
    assert manage("recall", "harmonium", collection="shed")[1] == ""
    with open_memory("shed") as memory:
        memory.remember(
            "The harmonium is tuned.",
            RememberOptions(commit=CommitOptions(update_vectors=False, update_stats=False)),
        )
    _, err = manage("recall", "harmonium", collection="shed")
    assert err.startswith("1 commit not known to be indexed")


def test_a_damaged_index_is_told_of_and_rebuilt(harmonium: dict[str, str], manage: Manage) -> None:
    (config,) = Path(harmonium["VECTOR_STORE_PATH"]).glob("shed/gen-*/shard/edge_config.json")
    config.write_text("{")
    out, _ = manage("recall", "harmonium", collection="shed")
    assert "topic, index: vector_database" in out
    manage("memory_rebuild_vectors", collection="shed")
    out, err = manage("recall", "harmonium", collection="shed")
    assert "lacks reed number" in out
    assert (err, "vector_database" in out) == ("", False)


def test_where_the_graph_is_no_folder_the_rows_tell_which_collections_there_are(
    harmonium: dict[str, str], manage: Manage
) -> None:
    MemoryCollection.objects.get_or_create(name="shed")
    harmonium["GRAPH_STORE_MODE"] = "in_memory"
    with pytest.raises(CommandError, match="no collection is called 'shedd'; known: shed$"):
        manage("recall", "harmonium", collection="shedd")
    assert not MemoryCollection.objects.filter(name="shedd").exists()


def test_where_there_is_no_collection_it_says_so(mapping: dict[str, str], manage: Manage) -> None:
    with pytest.raises(
        CommandError, match="no collection is called 'shed'; there is none yet in /.*/oxigraph$"
    ):
        manage("recall", "harmonium", collection="shed")
    assert not Path(mapping["OXIGRAPH_PATH"]).exists()


@pytest.mark.parametrize(
    ("question", "limit", "message"),
    [
        ("a\x00b", 3, "/topic.*NUL at character 1"),
        ("x" * 60_000, 3, "/topic.*50000"),
        (" \n\u200b", 3, "the question is blank; ask in words"),
        ("harmonium", 0, "--limit is a number from 1"),
        ("harmonium", 501, "--limit is a number from 1 to 500, not 501"),
        ("harmonium", 900, "500"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(
    harmonium: dict[str, str], manage: Manage, question: str, limit: int, message: str
) -> None:
    with pytest.raises(CommandError, match=message):
        manage("recall", question, collection="shed", limit=limit)


def test_another_model_is_refused_with_both_and_the_way_out(
    harmonium: dict[str, str], manage: Manage
) -> None:
    harmonium["EMBEDDING_PROVIDER"] = "wordllama"
    with pytest.raises(CommandError, match="wordllama.*hashing.*memory_rebuild_vectors --collection shed"):
        manage("recall", "harmonium", collection="shed")


def test_no_traceback_reaches_the_user_and_a_closed_pipe_is_no_failure(
    harmonium: dict[str, str], tmp_path: Path
) -> None:
    environment = os.environ | harmonium | {"DATA_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)
    command = [sys.executable, "manage.py", "recall", "harmonium", "--collection"]
    refused = subprocess.run([*command, "x"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "CommandError: no collection is called 'x'; known: shed\n"
    with subprocess.Popen(
        [*command, "shed"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as asked:
        assert asked.stdout and asked.stderr
        asked.stdout.close()
        assert asked.stderr.read() == b""
    for closed in (">&-", ">&- 2>&-"):  # as some supervisors start what they start
        line = f"{shlex.join([*command, 'shed'])} {closed}"
        answer = subprocess.run(line, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True)  # noqa: S602
        assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


def test_stored_text_cannot_steer_the_terminal(mapping: dict[str, str], manage: Manage) -> None:
    evil = "harmonium \x1b[2J\x1b]0;owned\x07 \u202egnorw\x9b31m"
    with open_memory("shed") as memory:
        memory.remember(evil)
    out, _ = manage("recall", "harmonium", collection="shed")
    assert "owned" in out
    assert not any(sign in out for sign in "\x1b\x07\u202e\x9b")
    assert plain("a\tb\nc") == "a b c" and plain("👩\u200d🌾") == "👩\u200d🌾"


def test_days_are_those_of_the_clock_where_it_happened_else_of_the_host(
    mapping: dict[str, str], manage: Manage, settings: Any
) -> None:
    """One moment on the last of January in UTC and Honolulu, and on the first of February in Tokyo."""
    moment = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
    with open_memory("shed", clock=lambda: moment) as memory:
        for hours, what in ((-10, "harp"), (9, "organ")):
            outcome = memory.remember(
                RememberInput(
                    scene=Scene(time=moment.astimezone(timezone(timedelta(hours=hours)))),
                    episode=EpisodeDraft.new(f"An evening with the {what}."),
                    observations=(ObservationDraft.new(f"The {what} is in tune."),),
                    derived_memory_drafts=(DerivedMemoryDraft.new(DerivedType.CLAIM, f"Good {what}."),),
                )
            )

    def days() -> dict[str, str]:
        lines = manage("recall", "Are harp and organ in tune?", collection="shed", limit=9)[0].splitlines()
        told = zip(lines, lines[1:], strict=False)
        return {line.split("  ")[-1]: below.split(",")[0].strip() for line, below in told if "." in line}

    expected = {
        "An evening with the harp.": "31 Jan 2026",
        "The harp is in tune.": "31 Jan 2026",
        "An evening with the organ.": "1 Feb 2026",
        "The organ is in tune.": "1 Feb 2026",
    }
    for zone, day in (("America/New_York", "31 Jan 2026"), ("Asia/Tokyo", "1 Feb 2026")):
        settings.TIME_ZONE = zone
        found = days()
        assert {text: found.get(text) for text in expected} == expected
        assert (found["Good harp."], found["Good organ."]) == (day, day)

    (episode,) = (ref for ref in outcome.persisted_object_ids if ref.object_type == "episode")
    with open_memory("shed") as memory:
        kept = ForgetCascade(apply_to_observations=False)
        memory.forget(ForgetMemoryDraft.suppress(episode, "a test").replace(cascade_policy=kept))
    settings.TIME_ZONE = "America/New_York"
    found = days()
    assert "An evening with the organ." not in found
    assert found["The organ is in tune."] == "1 Feb 2026"


@pytest.mark.parametrize("day", ["0001-01-01T00:30:00Z", "9999-12-31T23:30:00Z"])
def test_days_at_the_ends_of_the_calendar_are_told(
    mapping: dict[str, str], manage: Manage, settings: Any, day: str
) -> None:
    moment = datetime.fromisoformat(day)
    settings.TIME_ZONE = "Asia/Tokyo" if moment.year > 1 else "Pacific/Honolulu"
    with open_memory("shed", clock=lambda: moment) as memory:
        draft = DerivedMemoryDraft.new(DerivedType.CLAIM, "The harmonium is old.")
        memory.remember(RememberInput.new("The harmonium is there.").with_derived_memory(draft))
    out, _ = manage("recall", "harmonium", collection="shed")
    assert out.count(f"{moment.day} {moment:%b %Y}") >= 2


def test_words_for_time_and_what_was_missing(mapping: dict[str, str]) -> None:
    with open_memory("shed") as memory:
        memory.remember("The harmonium.")
        found = recollect(memory, memory.retrieve(RetrievalContext.new("harmonium")))
    entry, *_ = found.entries
    for days, words in (
        (0, ""),
        (1, ", 1 day before"),
        (29, ", 29 days before"),
        (61, ", 2 months before"),
        (800, ", 2 years before"),
    ):
        layout = Layout(no_style(), entry.when + timedelta(days=days), 80)
        assert f"{words} · because of the topic" in "\n".join(layout.answer(found))
