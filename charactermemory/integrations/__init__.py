"""Joining the memory to the clients through which a companion talks."""
