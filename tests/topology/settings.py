"""The reference project with a beat that has no time to lose."""

from config.settings import *  # noqa: F403
from config.settings import CELERY_BEAT_SCHEDULE as _SCHEDULE
from config.settings import CHARACTER_MEMORY as _MEMORY

CELERY_BEAT_SCHEDULE = {
    name: {**entry, "schedule": 1.0} if name.endswith("sweep") else entry for name, entry in _SCHEDULE.items()
}
CELERY_BEAT_MAX_LOOP_INTERVAL = 0.5

# Tests ask as often as they like.
CHARACTER_MEMORY = {**_MEMORY, "API": {"THROTTLE_RATES": {"memory_operate": None, "memory_write": None}}}
