"""What every test shares."""

import pytest

pytest_plugins = ["tests.support.fixtures", "tests.support.databases"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that both processes end together."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
