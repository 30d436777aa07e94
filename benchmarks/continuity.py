"""Continuity scenarios: a scripted life, played through the public API, and what is recalled of it.

    python -m benchmarks.continuity SCENARIOS.json [--scenario NAME] [--verbose]

Plays every scenario of a `continuity_v3` file in a memory of its own on
embedded stores: remember, correct, forget, link, restart, ask. A remembered event becomes an episode with one
observation and one reflection on both, about its notions; the notions' labels are given naming beliefs. The
clock is the script's. Questions bring their text alone: labels and expectations never reach the memory.

Structural scenarios use the vectors that they script; the others, written for frozen vectors of a remote
model, the bundled local one, and are reported apart. Integrity covers all of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.continuity_metrics import Answer, Report, integrity_of, summary, table
from charactermemory import (
    SCHEMA_VERSION,
    BeliefAssertion,
    CandidateProvenance,
    CharacterMemory,
    CorrectionTarget,
    CorrectMemoryDraft,
    DerivedMemoryDraft,
    DerivedType,
    EntityDraft,
    EpisodeDraft,
    ForgetMemoryDraft,
    MemoryLinkDraft,
    MemoryObjectRef,
    MemoryThreadDraft,
    ObjectType,
    ObservationDraft,
    Participant,
    RelationType,
    RememberInput,
    RememberWritePlan,
    ReplacementDerivedMemoryDraft,
    RetrievalContext,
    Scene,
    SourceProvenanceReference,
    candidate,
    derive_id,
)
from charactermemory.domain.provenance import ProducerKind
from charactermemory.ports.embedding import Vector
from charactermemory.revise.drafts import ForgetCascade, ForgetLifecyclePolicy, SuppressionPolicy

CONTROLLED = "controllable_similarity"


class ScriptedSimilarity:
    """An embedder of which the scenario says how alike texts are.

    Every text it may meet belongs to one concept, a concept to a cluster; a text's vector is its cluster's,
    moved by a little noise that is the same in every run. A question from which recall took the names is the
    question still. A text that nobody declared is an error, not a guess.
    """

    def __init__(self, script: Mapping[str, Any], labels: Sequence[str]) -> None:
        self._labels = sorted((label.casefold() for label in labels), key=len, reverse=True)
        self._seed, self._noise = script["seed"], script["noise_magnitude"]
        self._size = script["vector_size"]
        self._clusters: dict[str, Sequence[float]] = {}
        for concept in script["concepts"].values():
            for text in concept["inputs"]:
                cluster = script["clusters"][concept["cluster"]]
                for key in (_words(text), self._unnamed(text)):
                    if key and self._clusters.setdefault(key, cluster) is not cluster:
                        raise ValueError(f"two concepts claim the input {text!r}")

    def fingerprint(self) -> str:
        """See `EmbeddingProvider`."""
        return f"scripted:{self._seed}:{self._size}"

    def vector_size(self) -> int:
        """See `EmbeddingProvider`."""
        return int(self._size)

    def generate_embedding(self, text: str) -> Vector:
        """See `EmbeddingProvider`; a text of no concept raises KeyError."""
        cluster = self._clusters.get(_words(text)) or self._clusters[self._unnamed(text)]
        digest = hashlib.shake_256(f"{self._seed}\n{text}".encode()).digest(4 * len(cluster))
        moves = (number / 2**31 - 1 for number in struct.unpack(f">{len(cluster)}I", digest))
        return [value + self._noise * move for value, move in zip(cluster, moves, strict=True)]

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[Vector]:
        """See `EmbeddingProvider`."""
        return [self.generate_embedding(text) for text in texts]

    def _unnamed(self, text: str) -> str:
        left = text.casefold()
        for label in self._labels:
            left = left.replace(label, " ")
        return _words(left)


def _words(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


class Life:
    """One scenario, played in a memory of its own."""

    def __init__(self, scenario: Mapping[str, Any], folder: Path) -> None:
        self.scenario, self.folder = scenario, folder
        self.now = _time(scenario["events"][0]["timestamp"])
        self.refs: dict[str, MemoryObjectRef] = {}
        self.source: dict[str, str] = {}
        self.written: dict[str, datetime] = {}
        self.history: list[str] = []
        self.unstable = 0
        self.memory = self._open()

    @property
    def externals(self) -> dict[MemoryObjectRef, str]:
        """The scenario's name of every object it brought."""
        return {ref: name for name, ref in self.refs.items()}

    def play(self) -> Iterator[Answer]:
        """Play the script and yield the answer to each question."""
        self._give_notions()
        for place, event in enumerate(self.scenario["events"]):
            self.now = _time(event["timestamp"])
            if event["kind"] == "query":
                yield self._ask(event)
            elif event["kind"] == "restart":
                self._restart(next(e for e in self.scenario["events"][place:] if e["kind"] == "query"))
            else:
                getattr(self, f"_{event['kind']}")(event)

    def close(self) -> None:
        """Close the memory."""
        self.memory.close()

    def _open(self) -> CharacterMemory:
        script = self.scenario["embedding"]
        labels = [entity["label"] for entity in self.scenario["entities"]]
        controlled = script["provider"] == CONTROLLED
        return CharacterMemory.open(
            {
                "OXIGRAPH_PATH": str(self.folder / "graph"),
                "VECTOR_STORE_PATH": str(self.folder / "vectors"),
                "RETRIEVAL_STATS_PATH": str(self.folder / "statistics.sqlite3"),
                "EMBEDDING_PROVIDER": "wordllama",
                "FENCE_SECRET": "continuity",
            },
            "continuity",
            embedding_provider=ScriptedSimilarity(script, labels) if controlled else None,
            clock=lambda: self.now,
        )

    def _new(self, object_type: ObjectType, name: str, source: str | None = None) -> MemoryObjectRef:
        ref = MemoryObjectRef.of(object_type, derive_id(self.scenario["fixture_id"], name))
        if self.refs.setdefault(name, ref) != ref:
            raise ValueError(f"{name} names two things")
        self.source[name] = source or name
        self.written.setdefault(name, self.now)
        return ref

    def _commit(self, *drafts: object) -> None:
        provenance = CandidateProvenance.unavailable(ProducerKind.CALLER)
        plan = RememberWritePlan.new().with_candidates(*(candidate(draft, provenance) for draft in drafts))
        _whole(self.memory.commit(plan))

    def _give_notions(self) -> None:
        for entity in self.scenario["entities"]:
            notion = self._new(ObjectType.ENTITY, entity["external_id"])
            naming = self._new(ObjectType.DERIVED_MEMORY, f"{entity['external_id']}:name")
            self._commit(
                EntityDraft(id=notion.id, created_at=self.now, schema_version=SCHEMA_VERSION),
                DerivedMemoryDraft(
                    id=naming.id,
                    created_at=self.now,
                    updated_at=self.now,
                    schema_version=SCHEMA_VERSION,
                    derived_type=DerivedType.CLAIM,
                    text=entity["label"],
                    entity_ids=(notion.id,),
                    assertions=(BeliefAssertion.known_as(notion.id, entity["label"]),),
                    given_by_application=True,
                ),
            )

    def _remember(self, event: Mapping[str, Any]) -> None:
        name, salience = event["external_id"], event["salience"]
        texts = event.get("surface_texts") or dict.fromkeys(
            ("episode", "observation", "derived"), event["text"]
        )
        notions = tuple(self.refs[key].id for key in event["entity_external_ids"])
        happened = self._new(ObjectType.EPISODE, name)
        said = self._new(ObjectType.OBSERVATION, f"{name}:observation", name)
        held = self._new(ObjectType.DERIVED_MEMORY, f"{name}:derived", name)
        threads: tuple[MemoryObjectRef, ...] = ()
        drafts: list[MemoryThreadDraft] = []
        if event["thread"]:
            key = event["thread"]["thread_external_id"]
            known = key in self.refs
            threads = (self.refs[key] if known else self._new(ObjectType.MEMORY_THREAD, key),)
            if not known:
                drafts = [
                    MemoryThreadDraft(
                        id=threads[0].id, title=texts["episode"], summary="", salience_score=salience
                    )
                ]
        scene = Scene(time=self.now, participants=tuple(Participant(key=notion) for notion in notions))
        given = RememberInput(
            scene=scene,
            episode=EpisodeDraft(
                id=happened.id, summary=texts["episode"], raw_ref=_source(name), salience_score=salience
            ),
            observations=(ObservationDraft(id=said.id, text=texts["observation"], salience_score=salience),),
            memory_thread_drafts=tuple(drafts),
            derived_memory_drafts=(
                DerivedMemoryDraft(
                    id=held.id,
                    derived_type=DerivedType.REFLECTION,
                    text=texts["derived"],
                    derived_from_episode_ids=(happened.id,),
                    derived_from_observation_ids=(said.id,),
                    thread_ids=tuple(ref.id for ref in threads),
                    entity_ids=notions,
                    salience_score=salience,
                ),
            ),
            memory_link_drafts=tuple(
                MemoryLinkDraft.new(
                    ObjectType.EPISODE, happened.id, RelationType.MENTIONS, ObjectType.ENTITY, notion
                )
                for notion in notions
            ),
        )
        _whole(self.memory.remember(given))
        self.history.append(f"{self.now.isoformat()} {' '.join(dict.fromkeys(texts.values()))}")

    def _correct(self, event: Mapping[str, Any]) -> None:
        target, origin = self.refs[event["target_external_id"]], self.source[event["target_external_id"]]
        source = SourceProvenanceReference(episode_ids=(self.refs[origin].id,))
        if target.object_type is ObjectType.EPISODE:
            wrong: Any = CorrectionTarget.episode(target.id, raw_ref=_source(origin))
        else:
            wrong = CorrectionTarget.derived_memory(target.id)
        right = self._new(ObjectType.DERIVED_MEMORY, event["replacement_external_id"], origin)
        replacement = ReplacementDerivedMemoryDraft(
            id=right.id,
            derived_type=DerivedType.REFLECTION,
            text=event["replacement_text"],
            derived_from_episode_ids=source.episode_ids,
            salience_score=1.0,
            original_source_provenance=source,
            correction_origin_provenance=source,
        )
        draft = CorrectMemoryDraft.new(wrong, f"scripted correction {event['event_id']}")
        _whole(self.memory.correct(draft.with_origin(source).with_replacement(replacement)))
        self.history.append(f"{self.now.isoformat()} {event['replacement_text']}")

    def _forget(self, event: Mapping[str, Any]) -> None:
        whole = event["apply_to_derived_from_target"]
        suppression = SuppressionPolicy(suppress_derived_from_target=event["suppress_derived_from_target"])
        draft = ForgetMemoryDraft(
            targets=tuple(self.refs[name] for name in event["target_external_ids"]),
            rationale=f"scripted forgetting {event['event_id']}",
            lifecycle_policy=ForgetLifecyclePolicy(suppression=suppression),
            cascade_policy=ForgetCascade(apply_to_derived_from_target=whole, apply_to_observations=whole),
        )
        _whole(self.memory.forget(draft))

    def _link(self, event: Mapping[str, Any]) -> None:
        start, end = self.refs[event["from_external_id"]], self.refs[event["to_external_id"]]
        link = self._new(ObjectType.MEMORY_LINK, event["external_id"])
        draft = MemoryLinkDraft.new(
            start.object_type, start.id, RelationType(event["relation"]), end.object_type, end.id
        )
        _whole(self.memory.link(draft.replace(id=link.id)))

    def _restart(self, question: Mapping[str, Any]) -> None:
        """Close everything and open it again; the next question must be answered alike before and after."""
        before = self.memory.retrieve(question["text"])
        self.memory.close()
        self.memory = self._open()
        self.unstable += self.memory.retrieve(question["text"]) != before

    def _ask(self, event: Mapping[str, Any]) -> Answer:
        context = RetrievalContext(topic=event["text"], include_trace=True)
        outcome = self.memory.retrieve(context)
        expected = event["expected"]
        relevant = frozenset(expected["relevant_external_ids"])
        names = self.externals
        items = [entry.object for entry in outcome.pack.admissions]
        return Answer(
            question=event["query_id"],
            relevant=relevant,
            irrelevant=frozenset(expected["irrelevant_external_ids"]),
            items=[(names.get(ref), self.source.get(names.get(ref, ""))) for ref in items],
            gap_days=max(
                (self.now - self.written[name]).total_seconds() / 86_400
                for name in relevant
                if name in self.written
            ),
            outcome=outcome,
            hubs=frozenset(self.refs[e["external_id"]] for e in self.scenario["entities"] if e["is_hub"]),
            pack_text=self.memory.render(outcome.pack).text,
            history="\n".join(self.history),
            integrity=integrity_of(self.memory, outcome, items, names),
        )


def _source(name: str) -> str:
    return f"continuity:{name}"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _whole(outcome: Any) -> None:
    if not outcome.complete:
        raise RuntimeError(f"a write left something to repair: {outcome.repair_needed}")


def run(scenario: Mapping[str, Any]) -> Report:
    """Play one scenario and measure it."""
    with tempfile.TemporaryDirectory(prefix="continuity-") as folder:
        life = Life(scenario, Path(folder))
        try:
            answers = list(life.play())
            differences = life.memory.upkeep.verify().differences
        finally:
            life.close()
    return Report(
        name=scenario["fixture_id"],
        controlled=scenario["embedding"]["provider"] == CONTROLLED,
        answers=answers,
        differences=differences,
        unstable=life.unstable,
    )


def main() -> int:
    """Play, print one row a question, the metrics, and the closing line."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("fixture", type=Path, help="a continuity_v3 file; read in place, never copied")
    arguments.add_argument("--scenario", action="append", help="only this one; may be given several times")
    arguments.add_argument("--verbose", action="store_true", help="list what each question brought")
    options = arguments.parse_args()
    scenarios = json.loads(options.fixture.read_text())["scenarios"]
    chosen = [item for item in scenarios if not options.scenario or item["fixture_id"] in options.scenario]
    reports = [run(scenario) for scenario in chosen]
    structural = [report for report in reports if report.controlled]
    print(table(reports, verbose=options.verbose))
    for title, group in (
        ("scripted vectors", structural),
        ("bundled embedder", [report for report in reports if not report.controlled]),
    ):
        if group:
            print(f"\n{title}: {len(group)} scenarios")
            for name, value in summary(group).items():
                print(f"  {name:44} {'n/a' if value is None else f'{value:.4f}'}")
    figures = summary(structural)
    recall = " ".join(
        f"recall10_{gap}={_shown(figures[f'continuity_recall_fraction_gap_{gap}@10'])}"
        for gap in ("short", "medium", "long")
    )
    integrity = sum(report.integrity for report in reports)
    print(f"{recall} pollution={_shown(figures['sampled_context_pollution_rate'])} integrity={integrity}")
    return int(integrity > 0)


def _shown(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    sys.exit(main())
