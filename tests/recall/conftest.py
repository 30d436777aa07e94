"""Fixtures of recall's tests."""

import pytest

from tests.recall.world import World


@pytest.fixture
def world() -> World:
    """An empty collection."""
    return World()
