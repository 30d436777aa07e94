"""What a sample life is made of: the tables of `life.toml`, as frozen models.

Everything carries a key of its own (`person:robin`, `thread:north`, `session:arrival`); a turn is referred
to as `<session key>/<turn key>`. Sessions stand in the order in which they are lived. Living one means:
remember its episode with its turns, notions, threads, memories and links, then apply its corrections, then
its forgettings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from charactermemory.domain.kinds import DerivedType, RelationType, ThreadStatus
from charactermemory.ids import ObjectType

Key = Annotated[str, StringConstraints(pattern=r"^[a-z]+:[a-z0-9-]+$")]
"""The key of a notion, thread, memory, session or question, unique in the life."""
TurnKey = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$")]
"""The key of a turn, unique in its session."""
SourceKey = Annotated[str, StringConstraints(pattern=r"^session:[a-z0-9-]+(/[a-z0-9-]+)?$")]
"""A session, or one turn of it."""
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Text that says something."""
Salience = Annotated[float, Field(ge=0.0, le=1.0)]
"""How much a memory matters, from 0 to 1."""


class Table(BaseModel):
    """A table of the file: frozen, and without keys nobody reads."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Character(Table):
    """The companion whose life it is: the notion of itself, its name, and what it is like."""

    key: Key
    name: Words
    nature: Words


class Person(Table):
    """Somebody present, as perceived: a notion where it is known who it is, else a name or description."""

    key: Key | None = None
    name: Words | None = None
    description: Words | None = None


class Place(Table):
    """Where a session takes place."""

    key: Key
    words: Words


class Turn(Table):
    """One thing said: `by` is the speaker's notion."""

    key: TurnKey
    by: Key
    text: Words


class Naming(Table):
    """The belief that a notion is known by a name."""

    of: Key
    name: Words


class Memory(Table):
    """Something concluded. `sources` are what it was concluded from; a belief without them is given."""

    key: Key
    kind: DerivedType
    text: Words
    about: tuple[Key, ...] = ()
    threads: tuple[Key, ...] = ()
    names: tuple[Naming, ...] = ()
    sources: tuple[SourceKey, ...] = ()
    supersedes: tuple[Key, ...] = ()
    salience: Salience = 0.5


class NewThread(Table):
    """A thread that a session opens."""

    key: Key
    title: Words
    summary: Words
    status: ThreadStatus = ThreadStatus.ACTIVE


class Link(Table):
    """A link between two things, beside those that memories bring of themselves."""

    source: Key = Field(alias="from")
    relation: RelationType
    target: Key = Field(alias="to")


class Correction(Table):
    """A belief found mistaken: why, on whose word, and what is held instead."""

    target: Key
    rationale: Words
    requested_by: Words
    replacement: Memory


class Forgetting(Table):
    """Sessions or memories let go: why, and on whose word."""

    targets: tuple[Key, ...] = Field(min_length=1)
    rationale: Words
    requested_by: Words


class Beginning(Table):
    """What the companion is given before it has lived anything."""

    time: AwareDatetime
    notions: tuple[Key, ...]
    beliefs: tuple[Memory, ...]


class Session(Table):
    """One episode and all that came of it. `involves` are notions it is about that need not be there."""

    key: Key
    time: AwareDatetime
    setting: Place
    participants: tuple[Person, ...] = Field(min_length=1)
    involves: tuple[Key, ...] = ()
    threads: tuple[Key, ...] = ()
    summary: Words
    turns: tuple[Turn, ...] = Field(min_length=1)
    notions: tuple[Key, ...] = ()
    new_threads: tuple[NewThread, ...] = ()
    memories: tuple[Memory, ...] = ()
    links: tuple[Link, ...] = ()
    corrections: tuple[Correction, ...] = ()
    forgettings: tuple[Forgetting, ...] = ()

    @property
    def turn_keys(self) -> tuple[str, ...]:
        """The turns as sources refer to them."""
        return tuple(f"{self.key}/{turn.key}" for turn in self.turns)


class Question(Table):
    """A moment at which the memory is asked, and what its answer has to show.

    `found` must come back, `superseded` and `suppressed` must be reported as left out for that reason, and no
    text of the answer may contain a word of `absent`. `shows` says to a reader what the answer demonstrates.
    """

    key: Key
    time: AwareDatetime
    topic: Words
    participants: tuple[Person, ...] = ()
    shows: Words
    found: tuple[Key, ...] = Field(min_length=1)
    superseded: tuple[Key, ...] = ()
    suppressed: tuple[SourceKey | Key, ...] = ()
    absent: tuple[Words, ...] = ()


class SampleLife(Table):
    """A companion's life and the questions asked about it."""

    character: Character
    beginning: Beginning
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]

    @cached_property
    def object_types(self) -> Mapping[str, ObjectType]:
        """Which kind of memory object each key names; sessions are episodes, turns observations."""
        types = dict.fromkeys(self.beginning.notions, ObjectType.ENTITY)
        types |= dict.fromkeys((belief.key for belief in self.beginning.beliefs), ObjectType.DERIVED_MEMORY)
        for session in self.sessions:
            types[session.key] = ObjectType.EPISODE
            types |= dict.fromkeys(session.turn_keys, ObjectType.OBSERVATION)
            types |= dict.fromkeys(session.notions, ObjectType.ENTITY)
            types |= dict.fromkeys((t.key for t in session.new_threads), ObjectType.MEMORY_THREAD)
            concluded = (*session.memories, *(c.replacement for c in session.corrections))
            types |= dict.fromkeys((m.key for m in concluded), ObjectType.DERIVED_MEMORY)
        return types
