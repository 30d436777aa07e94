from __future__ import annotations

import sys
from collections.abc import Iterator

import httpx
import pytest

from tests.support import services as support
from tests.support.services import Services, eventually
from tests.topology.rest import NEW_KEY, Rest


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Every server of the production row, with the app's tables."""
    if why := support.missing():
        pytest.skip(why)
    with support.running(tmp_path_factory.mktemp("topology")) as running:
        running.manage("migrate", "--verbosity", "0")
        yield running


@pytest.fixture(scope="module")
def rest(services: Services) -> Iterator[Rest]:
    """gunicorn with two workers, a Celery worker, a beat, and a key."""
    url = services.web(workers=2)
    services.worker("first")
    services.beat()
    token = services.manage("shell", "--no-imports", "-c", NEW_KEY).strip()
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:

        def answers() -> bool:
            try:
                return client.get("/health/ready/").status_code == 200
            except httpx.TransportError:
                return False

        eventually("the web server answers", answers)
        made = client.post("/api/v1/collections", json={"name": "mees"})
        assert made.status_code == 201, made.text
        yield Rest(client, "mees")


@pytest.fixture(autouse=True)
def logs_of_a_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """Show what the processes printed when a test fails."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        sys.stdout.write(request.getfixturevalue("services").logs())
