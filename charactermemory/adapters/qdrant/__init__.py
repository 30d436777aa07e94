"""The vector index on Qdrant: embedded (Edge) and as a service."""
