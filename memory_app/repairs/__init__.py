"""Repairs: what a derived store could not be given is remembered as rows, and made up for by reconciling.

The row is the truth, a message or a wake-up only a hint (django-practice §5). Rows carry ids and causes, never
text; repairing re-reads the graph, so order and repetition do not matter.
"""
