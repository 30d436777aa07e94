"""Who is there, who said it, and who is meant."""

from charactermemory import DerivedType
from charactermemory.recall.sections import Section
from tests.scenarios.story import Recalled, Story


def village(story: Story) -> None:
    """Others the character knows, so that nobody is in everything."""
    for number, name in enumerate(("Olga", "Pieter", "Quinn", "Rosa")):
        other = story.someone(name)
        met = story.happened(number, f"{name} spoke of the weather.", present=[other])
        story.concluded(DerivedType.RELATIONSHIP_NOTE, f"{name} is a cheerful neighbour.", met, about=[other])


def test_a_promise_comes_back_when_the_person_does(story: Story) -> None:
    village(story)
    jo, iman = story.someone("Jo"), story.someone("Iman")
    evening = story.happened(3, "Would you lend me the telescope in autumn?", present=[jo])
    story.concluded(
        DerivedType.COMMITMENT, "I promised Jo the telescope for the autumn.", evening, about=[jo]
    )
    other = story.happened(4, "The piano needs tuning.", present=[iman])
    story.concluded(DerivedType.COMMITMENT, "I promised Iman to call the tuner.", other, about=[iman])

    met_again = story.asked(here=[jo], day=200)

    assert met_again.section(Section.COMMITMENTS) == ["I promised Jo the telescope for the autumn."]
    assert met_again.roads("telescope for the autumn") == {"anchor"}
    assert not met_again.brings("tuner")


def test_meeting_somebody_brings_what_stands_between_the_two_and_nothing_of_others(story: Story) -> None:
    village(story)
    iman, kit = story.someone("Iman"), story.someone("Kit")
    quarrel = story.happened(1, "You never listen to me.", present=[iman])
    strained = story.concluded(
        DerivedType.RELATIONSHIP_NOTE, "Things are strained between Iman and me.", quarrel, about=[iman]
    )
    first = story.happened(2, "I am new at the workshop.", present=[kit])
    story.concluded(DerivedType.RELATIONSHIP_NOTE, "Kit is new and shy.", first, about=[kit])
    talk = story.happened(9, "Let us forget that quarrel.", present=[iman])
    story.corrected(strained, "Iman and I have made up.", talk)

    with_iman, with_kit = story.asked(here=[iman], day=10), story.asked(here=[kit], day=10)

    assert with_iman.section(Section.RELATIONSHIP_NOTES) == ["Iman and I have made up."]
    assert "superseded_omitted" in with_iman.left_out(strained)
    assert with_kit.section(Section.RELATIONSHIP_NOTES) == ["Kit is new and shy."]


def test_a_stranger_brings_nothing_of_anybody(story: Story) -> None:
    village(story)
    stranger = story.someone()

    assert story.asked(here=[stranger], day=10).memories == {}


def test_two_of_one_name_are_both_meant_and_said_to_be(story: Story) -> None:
    village(story)
    climber, baker = story.someone("Alex"), story.someone("Alex")
    one = story.happened(1, "I fell on the north face.", present=[climber])
    story.concluded(DerivedType.CLAIM, "Alex climbs without a rope.", one, about=[climber])
    other = story.happened(2, "The oven was cold this morning.", present=[baker])
    story.concluded(DerivedType.CLAIM, "Alex bakes rye bread.", other, about=[baker])

    asked = story.asked("What is Alex up to?", day=5)

    (name,) = asked.outcome.rationale.names
    assert name.resolution == "ambiguous"
    assert set(name.candidates) == {climber, baker}
    assert asked.brings("climbs without a rope", "bakes rye bread")


def test_a_new_name_finds_what_was_lived_under_the_old_one(story: Story) -> None:
    village(story)
    friend = story.someone()
    old_name = story.named(friend, "Marit")
    winter = story.happened(1, (friend, "I want to learn to weld."), present=[friend])
    story.concluded(DerivedType.CLAIM, "She dreams of building boats of steel.", winter, about=[friend])
    spring = story.happened(90, "Please call me Robin from now on.", present=[friend])
    story.corrected(old_name, "This is Robin.", spring, assertions=story.naming(friend, "Robin"))

    by_new, by_old = story.asked("What does Robin dream of?", day=91), story.asked("Marit", day=91)

    assert by_new.outcome.rationale.names[0].candidates == (friend,)
    assert by_new.brings("boats of steel")
    assert by_old.outcome.rationale.names == ()
    assert not by_old.brings("This is Marit.")


def test_who_said_it_decides_what_comes_first(story: Story) -> None:
    village(story)
    ada, ben = story.someone("Ada"), story.someone("Ben")
    story.happened(
        1,
        (ada, "I think the harbour should be closed to cars."),
        (ben, "I think the harbour should stay open to cars."),
        present=[ada, ben],
    )

    of_ben = story.asked("What does Ben think of cars at the harbour?", day=2)
    of_ada = story.asked("What does Ada think of cars at the harbour?", day=2)

    assert of_ben.section(Section.SALIENT_OBSERVATIONS)[0].endswith("stay open to cars.")
    assert of_ada.section(Section.SALIENT_OBSERVATIONS)[0].endswith("closed to cars.")
    first = of_ben.outcome.pack.salient_observations[0]
    assert first.speaker_entity_id == ben


def test_who_asks_decides_whose_birthday_is_meant(story: Story) -> None:
    village(story)
    robin, ann, bea = story.someone(), story.someone("Ann"), story.someone("Bea")
    days = {ann: "on 3 May", bea: "on 9 October"}
    for number, (person, day) in enumerate(days.items()):
        talk = story.happened(
            number,
            (robin, "Good morning! When is your birthday?"),
            (person, f"My birthday is {day}."),
            (robin, f"I shall not forget that your birthday is {day}."),
            present=[robin, person],
            summary=f"A talk about a birthday, {day}.",
        )
        story.concluded(DerivedType.CLAIM, f"Their birthday is {day}.", talk, about=[person])
        story.concluded(
            DerivedType.COMMITMENT, f"I bake a cake for the birthday {day}.", talk, about=[person]
        )
    held = (
        Section.SALIENT_OBSERVATIONS,
        Section.RELEVANT_EPISODES,
        Section.DERIVED_MEMORIES,
        Section.COMMITMENTS,
    )

    def first(asked: Recalled) -> set[str]:
        """Return the day that each section tells first."""
        said = [next(text for text in asked.section(section) if " on " in text) for section in held]
        return {day for text in said for day in days.values() if day in text}

    for person, day in days.items():
        for company in ([person], [robin, person]):
            assert first(story.asked("When is my birthday?", here=company, day=9)) == {day}
    of_bea = story.asked("When is Bea's birthday?", here=[robin, ann], day=9)
    assert days[bea] in of_bea.section(Section.SALIENT_OBSERVATIONS)[0]
    assert days[bea] in of_bea.section(Section.DERIVED_MEMORIES)[0]


def test_what_was_said_in_confidence_keeps_its_own_scene(story: Story) -> None:
    village(story)
    jo, iman = story.someone("Jo"), story.someone("Iman")
    alone = story.happened(1, (jo, "Between us: I want to leave the band."), present=[jo], where="the porch")
    table = story.happened(
        2,
        (jo, "The band is doing splendidly."),
        (iman, "We play on Friday."),
        present=[jo, iman],
        where="the table",
    )

    asked = story.asked("How does Jo feel about the band?", day=3)

    assert asked.brings("leave the band", "doing splendidly")
    scenes = {
        item.id: (item.scene.setting.words, item.scene.participant_keys)
        for item in asked.outcome.pack.relevant_episodes
        if item.scene.setting
    }
    assert scenes[alone.episode] == ("the porch", (jo,))
    assert scenes[table.episode] == ("the table", (jo, iman))
    places = {item.text: item.episode_id for item in asked.outcome.pack.salient_observations}
    assert places["Between us: I want to leave the band."] == alone.episode


def test_hearsay_is_kept_beside_what_was_seen_and_says_whose_it_is(story: Story) -> None:
    village(story)
    jo, kit = story.someone("Jo"), story.someone("Kit")
    gossip = story.happened(1, (jo, "Kit sold the boat, people say."), present=[jo])
    rumour = story.concluded(DerivedType.CLAIM, "Jo says that Kit sold the boat.", gossip, about=[kit, jo])
    visit = story.happened(5, (kit, "Come aboard, she is still mine."), present=[kit])
    seen = story.concluded(DerivedType.CLAIM, "Kit still has the boat; I was on it.", visit, about=[kit])

    asked = story.asked("Does Kit still have the boat?", day=6)

    sources = {item.memory.id: item.source_episode_ids for item in asked.outcome.pack.derived_memories}
    assert sources[rumour.id] == (gossip.episode,)
    assert sources[seen.id] == (visit.episode,)
