"""What the app refuses beyond what the core does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from charactermemory.errors import CharacterMemoryError


@dataclass(eq=False)
class CollectionArchived(CharacterMemoryError):
    """The collection is archived: it is kept, and neither read nor written."""

    code: ClassVar[str] = "collection_archived"
    collection: str

    def describe(self) -> str:
        """Name the collection and the way back."""
        return f"collection {self.collection} is archived; unset `archived` on its row to use it again"
