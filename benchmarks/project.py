"""The reference project without limits on requests: a load test asks faster than any caller may."""

from config.settings import *  # noqa: F403
from config.settings import CHARACTER_MEMORY as _MEMORY

_SCOPES = ("memory_read", "memory_retrieve", "memory_write", "memory_operate")
CHARACTER_MEMORY = {**_MEMORY, "API": {"THROTTLE_RATES": dict.fromkeys(_SCOPES)}}
