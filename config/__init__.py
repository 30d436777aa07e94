"""The reference project: how a host wires memory_app into Django."""
