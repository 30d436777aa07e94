"""Random sequences of acts, for hypothesis."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.properties.playing import FAIR, Act, Player, Weather
from tests.support.grounds import MemoryGround

LEAST_STEPS = 20
MOST_STEPS = 21

_kinds = st.sampled_from(
    ["sweep", *["remember"] * 5, *["forget"] * 4, *["correct"] * 3, *["repeat"] * 5, "link", "link", "leave"]
    + ["leave", "claim", "sweep", "restart", "restart", "verify", "rebuild_vectors", "rebuild_statistics"]
)
_numbers = st.integers(0, 11)
_meanwhile = ("forget", "correct", "remember", "repeat")
_failures = ("no embedding", "no index", "no statistics", "taken over")


@st.composite
def _acts(draw: st.DrawFn) -> Act:
    return Act(draw(_kinds), draw(_numbers), draw(_numbers), draw(st.integers(0, 127)))


@st.composite
def _weathers(draw: st.DrawFn) -> Weather:
    match draw(st.integers(0, 5)):
        case 3:
            other = Act(draw(st.sampled_from(_meanwhile)), draw(st.integers(0, 3)), draw(_numbers))
            return Weather("meanwhile", other=other)
        case 4:
            return Weather("crash", draw(st.integers(1, 24)), draw(st.booleans()))
        case 5:
            return Weather(draw(st.sampled_from(_failures)))
        case _:
            return FAIR


sequences = st.lists(st.tuples(_acts(), _weathers()), min_size=LEAST_STEPS, max_size=MOST_STEPS)
"""Half of all acts have fair weather; what is done meanwhile is mostly about what has just been stored."""


def fixed(count: int, *, shrink: bool = True) -> settings:
    """Settings under which a property is tried on the same `count` sequences in every run."""
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )


def play_in_memory(acts: list[tuple[Act, Weather]]) -> None:
    """Play one sequence in memory. Hypothesis derives the sequences from this function's text."""
    assert len(acts) >= LEAST_STEPS
    Player(MemoryGround()).play(acts)
