"""Nobody in a prompt is taken for somebody else of the same name."""

from uuid import UUID

from charactermemory.recall.calling import called

ANN, BEA, CAT = UUID(int=1), UUID(int=2), UUID(int=3)


def test_whoever_has_a_name_alone_is_called_by_the_first_of_them() -> None:
    assert called({ANN: ("Ann", "Annie"), BEA: ("Bea",)}) == {ANN: "Ann", BEA: "Bea"}
    assert called({}) == {}


def test_a_name_that_nobody_else_has_is_preferred() -> None:
    assert called({ANN: ("Alex", "Alex Moor"), BEA: ("Sasha", "alex")}) == {ANN: "Alex Moor", BEA: "Sasha"}
    assert called({ANN: ("Alex",), BEA: ("Alex", "Sasha")}) == {ANN: "Alex", BEA: "Sasha"}


def test_names_are_compared_as_recall_compares_them() -> None:
    assert called({ANN: ("Alex  Moor",), BEA: ("ALEX MOOR",)}) == {
        ANN: "Alex  Moor (1)",
        BEA: "ALEX MOOR (2)",
    }


def test_who_is_here_is_told_from_who_is_not() -> None:
    alike = {ANN: ("Alex",), BEA: ("Alex",), CAT: ("Alex",)}
    assert called(alike, [BEA]) == {ANN: "another Alex (1)", BEA: "Alex (here now)", CAT: "another Alex (2)"}
    assert called(alike, [ANN, CAT]) == {
        ANN: "Alex (here now) (1)",
        BEA: "another Alex",
        CAT: "Alex (here now) (2)",
    }
    assert called({ANN: ("Alex",), BEA: ("Bea",)}, [ANN]) == {ANN: "Alex", BEA: "Bea"}


def test_nobody_known_to_be_here_leaves_numbers_in_a_fixed_order() -> None:
    assert called({BEA: ("Alex",), ANN: ("Alex",)}) == {ANN: "Alex (1)", BEA: "Alex (2)"}


def test_no_made_name_is_that_of_somebody_else() -> None:
    """For instance of who called themselves so, to be taken for who is here."""
    alike = {ANN: ("Alex",), BEA: ("alex",)}
    assert called({**alike, CAT: ("Alex (Here Now)",)}, [ANN]) == {
        ANN: "Alex (here now) (1)",
        BEA: "another alex",
        CAT: "Alex (Here Now)",
    }
    assert called({**alike, CAT: ("Alex (1)",)}) == {ANN: "Alex (2)", BEA: "alex (3)", CAT: "Alex (1)"}
    four = {**alike, CAT: ("Alex (here now)",), UUID(int=4): ("Alex (here now)",)}
    assert len(set(called(four, [ANN]).values())) == 4
