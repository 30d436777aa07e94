"""One life that can be told in any order, and what it answers: for the tests of determinism, also as a process.

    python -m tests.recall.retelling FOLDER [SEED]

It is full of ties: the same words said on several days, equal salience, equal times. Without a seed a life that
is there already is only asked.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from charactermemory import CharacterMemory, DerivedType, Participant, RelationType, RetrievalContext, Scene
from charactermemory.clock import utc_now
from charactermemory.ids import MemoryObjectRef
from charactermemory.recall.render import Style
from charactermemory.revise.drafts import ForgetMemoryDraft
from tests.support import plans

ADA, BEN, NAMESAKE, GARDEN, MOVE = 1, 2, 3, 11, 12
FIRST_EPISODE, FIRST_TURN, FIRST_BELIEF, FIRST_NAMING, FIRST_LINK = 100, 200, 400, 500, 600
EPISODES, TURNS = 6, 5
SAID = (
    "The roses need water.",
    "I could not sleep for the noise.",
    "We might move to the coast.",
    "The roses need water.",
    "Do the roses need water?",
)
HELD = (
    (DerivedType.CLAIM, "The roses are thirsty in June."),
    (DerivedType.USER_PREFERENCE, "Ada likes her tea without sugar."),
    (DerivedType.COMMITMENT, "I promised Ada to remind her of the roses."),
    (DerivedType.OPEN_LOOP, "Whether they move to the coast is open."),
    (DerivedType.RELATIONSHIP_NOTE, "Ada and Ben are quick to make up."),
    (DerivedType.REFLECTION, "The coast means quiet to Ada."),
)
STYLES: tuple[Style, ...] = ("markdown", "xml", "json")
FORGOTTEN = plans.memory_ref(FIRST_BELIEF + 11)
WEST = timezone(timedelta(hours=-9, minutes=-30))


def drafts() -> list[Any]:
    """Return everything that is to be remembered, each with its own id and times."""
    made: list[Any] = [*map(plans.notion, (ADA, BEN, NAMESAKE)), plans.thread(GARDEN)]
    made += [plans.thread(MOVE, "The move", "where to live"), plans.naming(FIRST_NAMING, ADA, "Ada")]
    made += [
        plans.naming(FIRST_NAMING + 1, BEN, "Ben"),
        plans.naming(FIRST_NAMING + 2, BEN, "Benjamin", "Ada"),
        plans.naming(FIRST_NAMING + 3, NAMESAKE, "Ada"),
    ]
    for number in range(EPISODES):
        episode = FIRST_EPISODE + number
        # Two and two at the same instant, each in another zone, and each two in another month.
        when = (plans.AT + timedelta(days=31 * (number // 2))).astimezone(WEST if number % 2 else UTC)
        scene = Scene(
            time=when, participants=(Participant(key=plans.uid(ADA)), Participant(key=plans.uid(BEN)))
        )
        made.append(
            plans.episode(episode, "An evening about the roses." if number % 3 == 0 else None, scene=scene)
        )
        for position in range(TURNS):
            turn = FIRST_TURN + 10 * number + position
            speaker = plans.uid((BEN, ADA, BEN, ADA, NAMESAKE)[position])
            made.append(plans.observation(turn, episode, SAID[position], position, speaker_entity_id=speaker))
    for number in range(2 * len(HELD)):
        kind, text = HELD[number % len(HELD)]
        made.append(
            plans.belief(
                FIRST_BELIEF + number,
                text,
                (ADA,) if number % 2 else (ADA, BEN),
                derived_type=kind,
                given_by_application=False,
                derived_from_observation_ids=(plans.uid(FIRST_TURN + 10 * (number % EPISODES)),),
                thread_ids=(plans.uid(MOVE if number % 3 else GARDEN),),
                supersedes=(plans.uid(FIRST_BELIEF),) if number == 6 else (),
            )
        )
    for number in range(3):
        ends = plans.memory_ref(FIRST_BELIEF + number), plans.memory_ref(FIRST_BELIEF + number + 3)
        made.append(
            plans.link(plans.uid(FIRST_LINK + number), ends[0], RelationType.ASSOCIATED_WITH, ends[1])
        )
    return made


def _needs(draft: Any) -> set[Any]:
    """Return the ids that must be stored before a draft, or with it."""
    scene = getattr(draft, "scene", None)
    needed = set(scene.participant_keys) if scene else set()
    for name in ("episode_id", "speaker_entity_id", "from_id", "to_id"):
        needed.add(getattr(draft, name, None))
    for name in ("entity_ids", "thread_ids", "derived_from_observation_ids", "supersedes"):
        needed.update(getattr(draft, name, ()))
    return needed - {None}


def tell(memory: CharacterMemory, seed: int) -> None:
    """Remember the life in a random order and in commits of random sizes; forget one belief on the way."""
    rng = random.Random(seed)
    left, told = drafts(), set()
    while left:
        rng.shuffle(left)
        ready = [draft for draft in left if _needs(draft) <= told][: rng.randint(4, 30)]
        memory.commit(plans.plan(*ready))
        told |= {draft.id for draft in ready}
        if FORGOTTEN.id in {draft.id for draft in ready}:
            memory.forget(ForgetMemoryDraft(targets=(FORGOTTEN,), rationale="enough of it"))
        left = [draft for draft in left if draft.id not in told]


def contexts() -> list[RetrievalContext]:
    """Return what is asked: by words, by name, by an ambiguous name, by a month, by who is there, narrowly."""
    ada = plans.uid(ADA)
    narrow = {"max_fanout_per_node": 3, "max_nodes": 12, "max_hub_edges": 4}
    few = {"salient_observations": 3, "relevant_episodes": 2}
    scene = Scene(time=plans.AT, participants=(Participant(key=ada),))
    return [
        RetrievalContext(topic="the roses and the coast"),
        RetrievalContext(topic=f"Which roses, in {plans.AT:%Y-%m}?", scene=scene, section_limits=few),
        RetrievalContext(topic="What did Benjamin say of the noise?"),
        RetrievalContext(topic="Does Ada sleep?", profile="automatic"),
        RetrievalContext(topic="roses", scene=scene, graph_limits=narrow),
        RetrievalContext(scene=scene, anchors=(ada, plans.uid(BEN))),
        RetrievalContext(
            topic="roses", lifecycle_policy={"include_suppressed": True, "include_superseded": True}
        ),
    ]


def answers(memory: CharacterMemory, trace: bool = True) -> list[str]:
    """Return every outcome as JSON, and its pack as it stands in a prompt, whole and cut to a budget."""
    found = []
    for number, context in enumerate(contexts()):
        outcome = memory.retrieve(context.replace(include_trace=trace))
        found.append(outcome.to_json())
        style = STYLES[number % len(STYLES)]
        found.append(memory.render(outcome.pack, style=style, scene=context.scene).text)
        found.append(memory.render(outcome.pack, budget=120, scene=context.scene).text)
    return found


def refs_of(memory: CharacterMemory) -> set[MemoryObjectRef]:
    """Return everything that any answer holds."""
    outcomes = (memory.retrieve(context) for context in contexts())
    return {entry.object for outcome in outcomes for entry in outcome.pack.admissions}


def open_at(folder: Path, clock: Callable[[], datetime] = utc_now) -> CharacterMemory:
    """Open the memory in `folder` on embedded stores with the bundled embedder."""
    settings = {
        "OXIGRAPH_PATH": str(folder / "graph"),
        "VECTOR_STORE_PATH": str(folder / "vectors"),
        "RETRIEVAL_STATS_PATH": str(folder / "statistics.sqlite3"),
        "EMBEDDING_PROVIDER": "wordllama",
        "FENCE_SECRET": "a secret that only this test knows",
    }
    return CharacterMemory.open(settings, "retelling", clock=clock)


if __name__ == "__main__":
    with open_at(Path(sys.argv[1])) as opened:
        for given in sys.argv[2:]:
            tell(opened, int(given))
        sys.stdout.write("\n".join(answers(opened)) + "\n")
