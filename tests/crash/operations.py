"""The operations that are killed, on a small life that has something for each of them to change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from charactermemory.domain.kinds import RelationType
from charactermemory.memory import CharacterMemory
from charactermemory.remember.outcome import CommitOptions
from charactermemory.revise.drafts import ForgetMemoryDraft
from memory_app.chat_import.chat import ChatSession, ChatTurn
from memory_app.chat_import.importer import import_chat
from tests.revise.drafts import correction, sourced
from tests.support.plans import (
    AT,
    episode,
    episode_ref,
    link,
    memory_ref,
    naming,
    notion,
    observation,
    plan,
    thread,
    thread_ref,
    uid,
)

Say = Callable[[str, int], None]
"""Notes what was acknowledged: `done`, and how many turns are imported."""


def live(memory: CharacterMemory) -> None:
    """The life before: two evenings, what they mean, a thread, a name, something forgotten."""
    memory.commit(plan(notion(1), naming(2, 1, "Ada"), thread(3)))
    for start in (0x10, 0x20):
        memory.commit(
            plan(
                episode(start, f"Evening {start} in the garden"),
                observation(start + 1, start, f"Note {start + 1} of what was said"),
                observation(start + 2, start, f"Note {start + 2} of what was said", 1),
                sourced(
                    start + 3, f"Note {start + 3} of what it means", episodes=(start,), thread_ids=(uid(3),)
                ),
                sourced(start + 4, f"Note {start + 4} of what it means", observations=(start + 1,)),
            )
        )
    memory.forget(ForgetMemoryDraft.suppress(memory_ref(0x14), "asked to"))
    # Left to a sweep, so that one has something to do.
    left = sourced(0x15, "Note 21 of what it means", episodes=(0x10,))
    memory.commit(plan(left), CommitOptions(update_vectors=False, update_stats=False))


def nothing(memory: CharacterMemory, say: Say) -> None:
    """The life before stays as it is."""


def commit(memory: CharacterMemory, say: Say) -> None:
    """A new evening, whose meaning takes the place of an older one."""
    memory.commit(
        plan(
            episode(0x30, "Evening 48 in the garden"),
            observation(0x31, 0x30, "Note 49 of what was said"),
            sourced(0x33, "Note 51 of what it means", episodes=(0x30,), supersedes=(uid(0x13),)),
        )
    )
    say("done", 1)


def correct(memory: CharacterMemory, say: Say) -> None:
    """A memory is corrected."""
    memory.correct(correction(0x13, rationale="Note 52: it is otherwise"))
    say("done", 1)


def forget(memory: CharacterMemory, say: Say) -> None:
    """An evening is forgotten, with what was said and what it means."""
    memory.forget(ForgetMemoryDraft.suppress(episode_ref(0x20), "asked to"))
    say("done", 1)


def relate(memory: CharacterMemory, say: Say) -> None:
    """An evening is linked to a thread."""
    memory.link(link(uid(0x40), episode_ref(0x10), RelationType.ASSOCIATED_WITH, thread_ref(3)))
    say("done", 1)


def import_a_chat(memory: CharacterMemory, say: Say) -> None:
    """A chat is imported, a session a commit; every commit is acknowledged by the turns that are done."""
    sessions = [
        ChatSession(
            key=f"day-{day}",
            time=AT + timedelta(days=day),
            summary=f"Day {day} of the journey",
            turns=tuple(ChatTurn(str(n), "Ada", None, f"Note {day}.{n} of the journey") for n in (0, 1)),
        )
        for day in (1, 2, 3)
    ]
    done = 0

    def progress(turns: int) -> None:
        nonlocal done
        done += turns
        say("turns", done)

    import_chat(memory, sessions, progress)
    say("done", 1)


def sweep(memory: CharacterMemory, say: Say) -> None:
    """What was left behind is caught up with."""
    memory.upkeep.sweep()
    say("done", 1)


def rebuild(memory: CharacterMemory, say: Say) -> None:
    """Both derived stores are filled anew."""
    memory.upkeep.rebuild_vectors()
    memory.upkeep.rebuild_statistics()
    say("done", 1)


def end(memory: CharacterMemory, say: Say) -> None:
    """The memory is closed."""
    memory.close()
    say("done", 1)


OPERATIONS: dict[str, Callable[[CharacterMemory, Say], None]] = {
    "nothing": nothing,
    "commit": commit,
    "correct": correct,
    "forget": forget,
    "link": relate,
    "import": import_a_chat,
    "sweep": sweep,
    "rebuild": rebuild,
    "close": end,
}
