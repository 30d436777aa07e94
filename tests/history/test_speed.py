"""The benchmark of the chat window keeps its goals."""

import pytest

from benchmarks.history import Bench, main


def test_the_benchmark_measures_every_size(tmp_path):
    bench = Bench(tmp_path, [50, 200], rounds=3)
    bench.run()
    for size in (50, 200):
        for figure in ("append", "rewrite", "window", "budget"):
            assert bench.figures[f"{figure}_{size}_ms"] > 0
    assert any("append at 200" in goal.name for goal in bench.goals)


@pytest.mark.slow
@pytest.mark.spec("history-65", "history-66", "history-67", "history-68")
def test_the_goals_are_met(tmp_path, capsys):
    missed = main(["--folder", str(tmp_path)])
    assert missed == 0, capsys.readouterr().out
