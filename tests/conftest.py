"""What every test shares."""

import pytest
from hypothesis.internal.conjecture import providers

# Hypothesis draws some values from the constants of the modules that a process has loaded. Which these are depends
# on the files that ran before, and so would what a test tries; it has no setting for that.
providers._get_local_constants = lambda: providers._local_constants

pytest_plugins = ["tests.support.fixtures", "tests.support.databases"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that both processes end together."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
