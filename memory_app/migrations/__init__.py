"""Schema history of memory_app."""
