"""Whatever happens to a store, its counters are those of a plain recount."""

from hypothesis import given, settings
from hypothesis import strategies as st

from charactermemory.adapters.statistics import SqliteStatistics
from charactermemory.domain.kinds import RelationType
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.statistics import HubEdge, ObjectState, Projection
from charactermemory.testing.statistics_model import assert_equal_to_recount, memory, notion, state

OBJECT_TYPES = (
    ObjectType.EPISODE,
    ObjectType.OBSERVATION,
    ObjectType.DERIVED_MEMORY,
    ObjectType.MEMORY_THREAD,
)
RELATIONS = (RelationType.ABOUT, RelationType.INVOLVES, RelationType.ASSOCIATED_WITH)

refs = st.builds(memory, st.integers(1, 4), st.sampled_from(OBJECT_TYPES))
hubs = st.one_of(
    st.builds(notion, st.integers(1, 3)),
    st.builds(memory, st.integers(1, 3), st.sampled_from((ObjectType.EPISODE, ObjectType.MEMORY_THREAD))),
)


def one_state(ref: MemoryObjectRef, suppressed: bool, superseded: bool) -> ObjectState:
    """Make a state whose salience and time follow from the id, as they never change in a graph."""
    number = ref.id.int
    return state(
        ref, suppressed=suppressed, superseded=superseded, salience=number % 3 / 4, minutes=number % 2
    )


states = st.builds(one_state, refs, st.booleans(), st.booleans())
edges = st.builds(
    HubEdge, hubs, st.sampled_from(RELATIONS), st.one_of(refs, st.builds(notion, st.integers(1, 3)))
)
projections = st.builds(
    Projection, st.lists(states, max_size=4).map(tuple), st.lists(edges, max_size=6).map(tuple)
)
histories = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), st.lists(projections, min_size=1, max_size=1)),
        st.tuples(st.just("rebuild"), st.lists(projections, max_size=3)),
    ),
    max_size=10,
)


@settings(derandomize=True, database=None, deadline=None, max_examples=80)
@given(histories)
def test_counters_equal_a_recount_after_any_history(history: list[tuple[str, list[Projection]]]) -> None:
    store = SqliteStatistics(":memory:", "main")
    recorded: list[Projection] = []
    for token, (step, given_projections) in enumerate(history, 1):
        if step == "rebuild":
            store.rebuild(given_projections, token)
            recorded = list(given_projections)
        else:
            store.apply(given_projections[0], token)
            recorded += given_projections
    assert_equal_to_recount(store, recorded)
    store.close()


@settings(derandomize=True, database=None, deadline=None, max_examples=40)
@given(st.lists(projections, max_size=6), st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(history: list[Projection], random: object) -> None:
    shuffled = history + history[: len(history) // 2]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    store = SqliteStatistics(":memory:", "main")
    for projection in shuffled:
        store.apply(projection, 1)
    assert_equal_to_recount(store, history)
    store.close()
