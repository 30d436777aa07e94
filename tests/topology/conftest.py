from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.support import services as support
from tests.support.services import Services


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Every server of the production row, with the app's tables."""
    if why := support.missing():
        pytest.skip(why)
    with support.running(tmp_path_factory.mktemp("topology")) as running:
        running.manage("migrate", "--verbosity", "0")
        yield running


@pytest.fixture(autouse=True)
def logs_of_a_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """Show what the processes printed when a test fails."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        sys.stdout.write(request.getfixturevalue("services").logs())
