"""What changes, what was wrong, and what one lets go."""

from charactermemory import DerivedType, MemoryObjectRef, ObjectType, ThreadStatus
from charactermemory.recall.sections import Section
from tests.scenarios.story import Story


def test_a_late_correction_takes_the_place_of_what_was_believed_for_long(story: Story) -> None:
    bram = story.someone("Bram")
    rumour = story.happened(1, "They say Bram left after the quarrel about the house.")
    wrong = story.concluded(
        DerivedType.CLAIM, "Bram moved north because of the quarrel.", rumour, about=[bram]
    )
    for day in range(2, 8):
        talk = story.happened(day, "Bram wrote a card from the north.")
        story.concluded(DerivedType.CLAIM, f"Bram wrote for the {day}th time.", talk, about=[bram])
    letter = story.happened(300, "I moved north for the shipyard, nothing else.")
    right = story.corrected(wrong, "Bram moved north for his work at the shipyard.", letter)

    asked = story.asked("Why did Bram move north?", day=301)
    with_history = story.asked("Why did Bram move north?", day=301, everything=True)

    assert asked.brings("for his work at the shipyard")
    assert not asked.brings("because of the quarrel")
    assert "superseded_omitted" in asked.left_out(wrong)
    assert with_history.brings("for his work at the shipyard", "because of the quarrel")
    (entry,) = [item for item in asked.outcome.pack.derived_memories if item.memory.id == right.id]
    assert entry.memory.supersedes == (wrong.id,)


def test_forgetting_a_correction_does_not_bring_the_old_belief_back(story: Story) -> None:
    first = story.happened(1, "I never drink coffee.")
    wrong = story.concluded(DerivedType.USER_PREFERENCE, "She never drinks coffee.", first)
    second = story.happened(2, "A coffee, please.")
    right = story.corrected(wrong, "She drinks coffee black.", second)
    story.forgotten(right)

    asked = story.asked("coffee", day=3)

    assert asked.section(Section.PREFERENCES) == []
    assert asked.left_out(wrong) == {"superseded_omitted"}
    assert asked.left_out(right) == {"suppressed_omitted"}
    assert asked.brings("A coffee, please.")


def test_a_story_told_again_and_again_has_one_present_version(story: Story) -> None:
    when = story.happened(1, "We lost the mast off the cape.")
    held = story.concluded(DerivedType.REFLECTION, "We lost the mast and I was afraid.", when)
    for day, text in ((30, "We lost the mast and I was calm."), (60, "We lost the mast and laughed.")):
        held = story.corrected(held, text, story.happened(day, "Tell me about the mast again."))

    asked = story.asked("How did we lose the mast?", day=61)

    reflections = asked.section(Section.DERIVED_MEMORIES)
    assert reflections == ["We lost the mast and laughed."]


def test_a_matter_that_was_let_go_is_gone_with_its_words_and_reported(story: Story) -> None:
    nils, olga = story.someone("Nils"), story.someone("Olga")
    party = story.happened(1, "The oysters made everybody ill.", "Never speak of it.", present=[nils])
    held = story.concluded(DerivedType.REFLECTION, "The oyster evening was a shame.", party, about=[nils])
    story.happened(2, "The market opens at eight.", present=[olga])
    assert story.asked("oysters at the market", day=3).brings("made everybody ill", "evening was a shame")

    story.forgotten(party)
    by_topic = story.asked("oysters at the market", day=4)
    by_person = story.asked(here=[nils], day=4)

    assert by_topic.brings("The market opens at eight.")
    for asked in (by_topic, by_person):
        assert "oyster" not in asked.outcome.to_json().lower()
    assert by_person.said == ["This is Nils."]
    assert by_person.left_out(held) == {"suppressed_omitted"}
    # Kept as history all the same, for who asks for it.
    assert story.asked(here=[nils], day=4, everything=True).brings("evening was a shame")


def test_a_closed_thread_is_no_open_matter_and_its_memories_remain(story: Story) -> None:
    roof = story.thread("The roof", "It leaks over the stairs.", ThreadStatus.RESOLVED)
    garden = story.thread("The garden", "The fence by the stairs must be painted.")
    repaired = story.happened(5, "The roofer came and mended the leak over the stairs.")
    story.concluded(DerivedType.CLAIM, "The leak over the stairs is mended.", repaired, thread=roof)

    asked = story.asked("What about the stairs?", day=6)

    assert asked.section(Section.ACTIVE_THREADS) == ["The garden: The fence by the stairs must be painted."]
    assert asked.brings("The leak over the stairs is mended.")
    assert garden in asked.memories and roof not in asked.memories


def test_being_told_of_a_promise_makes_none(story: Story) -> None:
    customer = story.someone("Sam")
    claim = story.happened(1, (customer, "You promised me a refund."), present=[customer])
    story.concluded(
        DerivedType.CLAIM, "Sam says that I promised a refund; I know of none.", claim, about=[customer]
    )

    asked = story.asked("the refund for Sam", day=2)

    assert asked.section(Section.COMMITMENTS) == []
    assert "Sam says that I promised a refund; I know of none." in asked.section(Section.DERIVED_MEMORIES)


def test_what_a_person_said_first_and_later_both_stand_with_their_days(story: Story) -> None:
    user = story.someone("Uma")
    before = story.happened(1, (user, "I will never move to the city."), present=[user])
    later = story.happened(400, (user, "I will move to the city in May."), present=[user])

    asked = story.asked("Will Uma move to the city?", day=401)

    days = {
        item.episode_id: item.text for item in asked.outcome.pack.salient_observations if "city" in item.text
    }
    assert days == {
        before.episode: "I will never move to the city.",
        later.episode: "I will move to the city in May.",
    }
    for happened in (before, later):
        assert MemoryObjectRef.of(ObjectType.EPISODE, happened.episode) in asked.memories
