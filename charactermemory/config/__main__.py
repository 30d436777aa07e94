"""`python -m charactermemory.config` prints the settings' reference page, docs/settings.md."""

import sys

from charactermemory.config.reference import settings_page

sys.stdout.write(settings_page())
