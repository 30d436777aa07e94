"""Whether a sample life holds together: keys, references, the order of things, and what its questions expect.

A life is walked in the order in which it is lived, so that nothing can rest on what comes later. The rules
are those the memory itself would enforce; here they name the key at fault.
"""

from __future__ import annotations

from collections.abc import Iterable

from charactermemory.ids import ObjectType
from memory_app.sample.life import Memory, Person, Question, SampleLife, Session


class SampleLifeError(ValueError):
    """A sample life that does not hold together; the message names the table and the key at fault."""


def check_life(life: SampleLife) -> None:
    """Walk the whole life.

    Raises:
        SampleLifeError: the first thing found that does not fit.
    """
    walk = _Walk(life)
    walk.begin(life)
    for session in life.sessions:
        walk.live(session)
    walk.require(life.character.key, {ObjectType.ENTITY}, "character")
    for question in life.questions:
        walk.ask(question)


class _Walk:
    """What has come to be at one point of the life."""

    def __init__(self, life: SampleLife) -> None:
        self.now = life.beginning.time
        self.types: dict[str, ObjectType] = {}
        self.sources: dict[str, frozenset[str]] = {}
        self.texts: dict[str, str] = {}
        self.superseded: set[str] = set()
        self.suppressed: set[str] = set()

    def begin(self, life: SampleLife) -> None:
        for key in life.beginning.notions:
            self.add(key, ObjectType.ENTITY)
        for belief in life.beginning.beliefs:
            if belief.sources or not belief.about:
                raise SampleLifeError(f"{belief.key}: a given belief has no sources and is about a notion")
            self.remember(belief)

    def live(self, session: Session) -> None:
        if session.time <= self.now:
            raise SampleLifeError(f"{session.key}: is not later than what comes before it")
        self.now = session.time
        self.add(session.key, ObjectType.EPISODE, session.summary)
        for key in session.notions:
            self.add(key, ObjectType.ENTITY)
        for thread in session.new_threads:
            self.add(thread.key, ObjectType.MEMORY_THREAD, f"{thread.title} {thread.summary}")
        self.require_present(session.participants, session.key)
        self.require_all(session.involves, {ObjectType.ENTITY}, session.key)
        self.require_all(session.threads, {ObjectType.MEMORY_THREAD}, session.key)
        for turn, key in zip(session.turns, session.turn_keys, strict=True):
            self.add(key, ObjectType.OBSERVATION, turn.text)
            self.require(turn.by, {ObjectType.ENTITY}, key)
        earlier = frozenset(self.types)
        for memory in session.memories:
            self.remember(memory, earlier)
        for link in session.links:
            self.require_all((link.source, link.target), set(ObjectType), f"{session.key}: link")
        for correction in session.corrections:
            self.require(correction.target, {ObjectType.DERIVED_MEMORY}, f"{session.key}: correction")
            self.remember(correction.replacement)
            self.superseded.add(correction.target)
        for forgetting in session.forgettings:
            targets = {ObjectType.EPISODE, ObjectType.DERIVED_MEMORY}
            self.require_all(forgetting.targets, targets, f"{session.key}: forgetting")
            self.forget(forgetting.targets)

    def remember(self, memory: Memory, earlier: frozenset[str] = frozenset()) -> None:
        self.require_all(memory.sources, {ObjectType.EPISODE, ObjectType.OBSERVATION}, memory.key)
        self.require_all(memory.about, {ObjectType.ENTITY}, memory.key)
        self.require_all(memory.threads, {ObjectType.MEMORY_THREAD}, memory.key)
        self.require_all(memory.supersedes, {ObjectType.DERIVED_MEMORY}, memory.key)
        for naming in memory.names:
            if naming.of not in memory.about:
                raise SampleLifeError(f"{memory.key}: names {naming.of!r}, which it is not about")
        if late := [key for key in memory.supersedes if key not in earlier]:
            raise SampleLifeError(f"{memory.key}: supersedes {late[0]!r}, which is not of an earlier session")
        if lost := sorted(self.suppressed & set(memory.sources)):
            raise SampleLifeError(f"{memory.key}: rests on {lost[0]!r}, which was forgotten before")
        self.add(memory.key, ObjectType.DERIVED_MEMORY, memory.text)
        self.sources[memory.key] = frozenset(memory.sources)
        self.superseded.update(memory.supersedes)

    def forget(self, targets: Iterable[str]) -> None:
        """Suppress the targets; with an episode also its turns and the current memories resting on them."""
        for target in targets:
            gone = {key for key in self.types if key == target or key.startswith(f"{target}/")}
            gone |= {key for key, of in self.sources.items() if of & gone and key not in self.superseded}
            self.suppressed |= gone

    def ask(self, question: Question) -> None:
        if question.time <= self.now:
            raise SampleLifeError(f"{question.key}: is asked before the life has been lived")
        self.require_present(question.participants, question.key)
        expected = (*question.found, *question.superseded, *question.suppressed)
        self.require_all(expected, set(ObjectType), question.key)
        for key in question.found:
            if key in self.superseded | self.suppressed:
                raise SampleLifeError(f"{question.key}: expects {key!r}, which is superseded or forgotten")
        for key in question.superseded:
            if key not in self.superseded - self.suppressed:
                raise SampleLifeError(f"{question.key}: expects {key!r} as superseded, which it is not")
        for key in question.suppressed:
            if key not in self.suppressed:
                raise SampleLifeError(f"{question.key}: expects {key!r} as forgotten, which it is not")
        for word in question.absent:
            told = [key for key, text in self.texts.items() if word.lower() in text.lower()]
            if not told or not self.suppressed.issuperset(told):
                raise SampleLifeError(
                    f"{question.key}: {word!r} must stand in what was forgotten and nowhere else"
                )

    def add(self, key: str, kind: ObjectType, text: str = "") -> None:
        if key in self.types:
            raise SampleLifeError(f"{key}: is there twice; every key is unique")
        self.types[key] = kind
        if text:
            self.texts[key] = text

    def require_present(self, people: Iterable[Person], where: str) -> None:
        keys = [person.key for person in people if person.key is not None]
        self.require_all(keys, {ObjectType.ENTITY}, where)
        if any(person == Person() for person in people):
            raise SampleLifeError(f"{where}: has a participant without key, name and description")

    def require_all(self, keys: Iterable[str], kinds: set[ObjectType], where: str) -> None:
        for key in keys:
            self.require(key, kinds, where)

    def require(self, key: str, kinds: set[ObjectType], where: str) -> None:
        if key not in self.types:
            raise SampleLifeError(f"{where}: refers to {key!r}, which is not there yet")
        if self.types[key] not in kinds:
            wanted = " or ".join(sorted(kind.value for kind in kinds))
            raise SampleLifeError(f"{where}: refers to {key!r}, which is no {wanted}")
