"""Time, places and days: what is near, what is long ago, and what waits."""

from charactermemory import DerivedType
from charactermemory.recall.sections import Section
from tests.scenarios.story import Story

SMALL_TALK = (
    "The bus was late again.",
    "Lunch was soup and bread.",
    "A parcel came for the neighbours.",
    "The radio played an old song.",
    "Somebody left the gate open.",
)


def ordinary_days(story: Story, first: float, count: int) -> None:
    """Live through days on which nothing much is said."""
    for number in range(count):
        day = first + number
        story.happened(day, f"{SMALL_TALK[number % len(SMALL_TALK)]} It was day {number}.")


def test_years_of_absence_end_nothing(story: Story) -> None:
    lena, other = story.someone("Lena"), story.someone("Otto")
    farewell = story.happened(1, "I sail tomorrow; keep the key until I am back.", present=[lena])
    story.concluded(DerivedType.OPEN_LOOP, "I keep Lena's key until she is back.", farewell, about=[lena])
    story.happened(2, "Otto wants to borrow the ladder.", present=[other])
    ordinary_days(story, 30, 20)

    back = story.asked(here=[lena], day=1_500)

    assert back.section(Section.OPEN_LOOPS) == ["I keep Lena's key until she is back."]


def test_what_is_old_is_found_as_well_as_what_is_new(story: Story) -> None:
    story.happened(1, "The spare fuse is behind the blue tiles.")
    ordinary_days(story, 2, 20)
    story.happened(900, "The boiler was serviced.")

    asked = story.asked("Where is the spare fuse?", day=901)

    assert asked.section(Section.SALIENT_OBSERVATIONS)[0] == "The spare fuse is behind the blue tiles."


def test_what_was_said_this_morning_is_there_at_once_with_what_stood_around_it(story: Story) -> None:
    ordinary_days(story, 0, 10)
    morning = story.happened(
        20,
        "I slept badly.",
        "The surgeon called about my knee.",
        "It is to be on Thursday.",
        "Let us have breakfast.",
    )

    asked = story.asked("the surgeon and my knee", day=20.2)

    told = [item for item in asked.outcome.pack.salient_observations if item.episode_id == morning.episode]
    assert told[0].text == "The surgeon called about my knee."
    assert {"It is to be on Thursday.", "I slept badly."} <= {item.text for item in told}


def test_a_place_that_is_named_brings_what_was_left_unfinished_there(story: Story) -> None:
    lighthouse, mill = story.someone("the lighthouse"), story.someone("the mill")
    climb = story.happened(1, "We turned back on the hundredth step.", where="the lighthouse")
    story.concluded(DerivedType.OPEN_LOOP, "We still have to climb it to the top.", climb, about=[lighthouse])
    flour = story.happened(2, "The wheel did not turn.", where="the mill")
    story.concluded(DerivedType.OPEN_LOOP, "The wheel has yet to be mended.", flour, about=[mill])
    ordinary_days(story, 3, 10)

    there = story.asked("We are at the lighthouse once more.", day=50)

    assert there.section(Section.OPEN_LOOPS)[0] == "We still have to climb it to the top."
    assert "anchor" in there.roads("climb it to the top")


def test_a_loud_topic_does_not_silence_what_is_owed_to_who_is_there(story: Story) -> None:
    jo, rest = story.someone("Jo"), story.someone("Ray")
    asked_for = story.happened(1, "Could you find my father's letters?", present=[jo])
    story.concluded(DerivedType.COMMITMENT, "I promised Jo to find the letters.", asked_for, about=[jo])
    for day in range(2, 22):
        match = story.happened(day, f"The football match of day {day} was loud.", present=[rest])
        story.concluded(
            DerivedType.COMMITMENT,
            f"I promised to watch the football match of day {day}.",
            match,
            about=[rest],
        )

    asked = story.asked("the football match", here=[jo], day=30)

    promises = asked.section(Section.COMMITMENTS)
    assert "I promised Jo to find the letters." in promises
    assert sum("football" in text for text in promises) == len(promises) - 1 >= 5


def test_an_automatic_recall_brings_nothing_to_nonsense(story: Story) -> None:
    story.happened(1, "The harbour froze over in February.")
    ordinary_days(story, 2, 5)

    asked = story.asked("qwertz uiop asdf yxcv", day=10, profile="automatic")

    assert asked.memories == {}
    assert asked.outcome.rationale.degraded == ()
    assert story.asked("Did the harbour freeze?", day=10, profile="automatic").brings(
        "froze over in February"
    )


def test_after_a_restart_the_same_comes_to_mind(story: Story) -> None:
    jo = story.someone("Jo")
    walk = story.happened(1, (jo, "Remind me of the dentist on Monday."), present=[jo])
    story.concluded(DerivedType.COMMITMENT, "I promised Jo to remind her of the dentist.", walk, about=[jo])
    ordinary_days(story, 2, 5)
    before = story.asked("What did Jo want on Monday?", here=[jo], day=8)

    story.restart()
    after = story.asked("What did Jo want on Monday?", here=[jo], day=8)

    assert before.brings("Remind me of the dentist on Monday.", "I promised Jo to remind her of the dentist.")
    assert after.outcome.to_json() == before.outcome.to_json()
