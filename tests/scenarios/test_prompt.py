"""What a model is given to read leaves no doubt about who and when."""

from datetime import UTC, datetime, timedelta, timezone

from charactermemory import Participant, RememberInput, Scene
from tests.scenarios.story import Story


def test_two_people_of_one_name_are_told_apart_by_who_is_here(story: Story) -> None:
    neighbour, brother = story.someone("Alex"), story.someone("Alex")
    story.happened(1, (neighbour, "I am allergic to nuts."), present=[neighbour])
    story.happened(2, (brother, "I bake walnut bread every Sunday."), present=[brother])
    recalled = story.asked("Can Alex eat nuts?", here=[neighbour], day=3)
    scene = Scene(time=datetime(2024, 3, 4, tzinfo=UTC), participants=[Participant(key=neighbour)])

    told = story.memory.render(recalled.outcome.pack, scene=scene).volatile

    assert "Alex (here now): I am allergic to nuts." in told
    assert "another Alex: I bake walnut bread every Sunday." in told
    nobody_here = story.memory.render(recalled.outcome.pack)
    assert all(f"Alex ({number}): I " in nobody_here.volatile for number in (1, 2))
    assert nobody_here.stable == story.memory.render(recalled.outcome.pack, scene=scene).stable != ""


def test_who_is_here_is_not_taken_for_a_namesake_who_alone_came_up(story: Story) -> None:
    newcomer, brother = story.someone("Alex"), story.someone("Alex")
    story.happened(2, (brother, "I bake walnut bread every Sunday."), present=[brother])
    pack = story.memory.retrieve("Who bakes bread?").pack
    scene = Scene(time=datetime(2024, 3, 4, tzinfo=UTC), participants=[Participant(key=newcomer)])

    assert "another Alex: I bake walnut bread" in story.memory.render(pack, scene=scene).volatile
    assert ") Alex: I bake walnut bread" in story.memory.render(pack).volatile


def test_an_evening_far_away_is_told_by_its_own_clock(story: Story) -> None:
    """In UTC it was the day before, and "tomorrow" would be the wrong day."""
    chatham = timezone(timedelta(hours=13, minutes=45))
    evening = Scene(time=datetime(2026, 1, 6, 0, 30, tzinfo=chatham))
    story.memory.remember(RememberInput(content="The ferry leaves tomorrow at noon.", scene=evening))
    pack = story.memory.retrieve("When does the ferry leave?").pack

    assert "(2026-01-06 00:30) The ferry leaves" in story.memory.render(pack).volatile
    without_episode = pack.replace(relevant_episodes=())
    assert "(2026-01-06 00:30) The ferry leaves" in story.memory.render(without_episode).volatile
