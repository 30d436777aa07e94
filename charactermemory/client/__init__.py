"""A memory on a server, used like one in the process: the facade's methods over the REST API.

`MemoryClient` and `AsyncMemoryClient` take and return the core's models and raise the core's errors where the
server says enough to make them, `RequestFailed` otherwise.
"""

from charactermemory.client.asynchronous import AsyncMemoryClient
from charactermemory.client.failures import RequestFailed
from charactermemory.client.models import Prompt
from charactermemory.client.synchronous import MemoryClient

__all__ = ["AsyncMemoryClient", "MemoryClient", "Prompt", "RequestFailed"]
