"""`manage.py memory_openapi`: the description of the API as OpenAPI, as `docs/openapi.yaml` has it."""

from __future__ import annotations

import json
from typing import Any

import yaml
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """Write the description to standard output."""

    help = "Write the OpenAPI description of the REST API, in YAML."

    def handle(self, *args: Any, **options: Any) -> None:
        """Write it."""
        from memory_app.api.schema import description  # loads DRF, which no other command needs

        made = json.loads(description())
        self.stdout.write(yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=110), ending="")
