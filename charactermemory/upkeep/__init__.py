"""Upkeep: keeping the derived stores equal to the graph, and the graph checkable and portable."""
