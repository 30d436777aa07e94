"""The companion's only user is in everything; naming them, or meeting them on the way, must flood nothing."""

from collections.abc import Callable, Iterable

import pytest

from charactermemory import DerivedType, MemoryId
from charactermemory.recall.sections import Section
from tests.scenarios.story import Story

MATTERS = (
    "her tax returns",
    "the allotment",
    "jazz on Sundays",
    "the dentist",
    "her cousin's wedding",
    "black bread",
    "the broken lift",
    "night trains",
    "chess by post",
    "the neighbour's dog",
)
DINGHY = (
    "She wants to cross the bay in the dinghy this summer.",
    "The dinghy was her father's.",
    "The dinghy leaks at the stern.",
    "Before the winter somebody must take the dinghy out, clean it and cover it against rain and snow.",
    "Her brother once rowed the dinghy to the island and back in a single afternoon with two of his friends.",
    "At the harbour they ask for eighty a year, and that is for the smallest berth there is, dinghy or not.",
)

About = Callable[[int, MemoryId, MemoryId], Iterable[MemoryId]]


def alone(number: int, uma: MemoryId, ivo: MemoryId) -> list[MemoryId]:
    """All that is believed is about the one user."""
    return [uma]


def together(number: int, uma: MemoryId, ivo: MemoryId) -> list[MemoryId]:
    """All that is believed is about the user and the character both."""
    return [uma, ivo]


def mostly(number: int, uma: MemoryId, ivo: MemoryId) -> list[MemoryId]:
    """Two thirds of what is believed are about the user, the rest about the character."""
    return [uma] if number % 3 else [ivo]


@pytest.mark.parametrize("about", [alone, together, mostly])
def test_a_user_who_is_in_everything_floods_nothing(story: Story, about: About) -> None:
    uma, ivo = story.someone("Uma"), story.someone("Ivo")
    for number in range(40):
        matter = MATTERS[number % len(MATTERS)]
        day = story.happened(number, (uma, f"Let me tell you of {matter}."), present=[uma, ivo])
        story.concluded(
            DerivedType.CLAIM,
            f"It was about {matter}, for the {number}th time.",
            day,
            about=about(number, uma, ivo),
            salience_score=0.9,
        )
    for number, text in enumerate(DINGHY):
        day = story.happened(50 + number, (uma, "It is windy today."), present=[uma, ivo])
        story.concluded(DerivedType.CLAIM, text, day, about=[uma], salience_score=0.2)

    named = story.asked("What does Uma want with the dinghy?", day=60, profile="automatic")
    present = story.asked("What is it with the dinghy?", here=[uma, ivo], day=60, profile="automatic")

    assert set(named.section(Section.DERIVED_MEMORIES)) == set(DINGHY)
    assert set(present.section(Section.DERIVED_MEMORIES)) == set(DINGHY)


def test_somebody_rare_still_brings_what_is_about_them(story: Story) -> None:
    uma, vera = story.someone("Uma"), story.someone("Vera")
    for number in range(40):
        matter = MATTERS[number % len(MATTERS)]
        day = story.happened(number, (uma, f"Let me tell you of {matter}."), present=[uma])
        story.concluded(DerivedType.CLAIM, f"{number} times it was about {matter}.", day, about=[uma])
    visit = story.happened(45, (vera, "I brought plums."), present=[vera])
    story.concluded(DerivedType.CLAIM, "She brought plums and stayed for an hour.", visit, about=[vera])

    asked = story.asked("Vera spoke of the allotment and of chess by post.", day=60, profile="automatic")

    assert "She brought plums and stayed for an hour." in asked.section(Section.DERIVED_MEMORIES)
