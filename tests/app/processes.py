"""Other Python processes of the reference project, on the tests' PostgreSQL."""

from __future__ import annotations

import os
from pathlib import Path

from tests.graph.processes import Script
from tests.support.postgres import PostgresServer

DJANGO = """
import django
django.setup()
"""


def django_script(text: str, server: PostgresServer, folder: Path, *arguments: object) -> Script:
    """A script with Django set up; its `default` database is the tests' PostgreSQL."""
    database = server.settings
    environment = {
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATA_DIR": str(folder / "data"),
        "POSTGRES_DB": database["NAME"],
        "POSTGRES_USER": database["USER"],
        "POSTGRES_PASSWORD": "",
        "POSTGRES_HOST": database["HOST"],
        "POSTGRES_PORT": "",
    }
    return Script(DJANGO + text, *arguments, environment={**os.environ, **environment})
