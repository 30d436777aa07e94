"""Algorithms that choose the context window."""

from charactermemory.history.algorithms.base import BaseAlgorithm
from charactermemory.history.algorithms.budget import TokenBudget
from charactermemory.history.algorithms.fifo import FIFO, KeepSystem
from charactermemory.history.algorithms.selection import Composite, Importance, NotRecalled, TimeWindow
from charactermemory.history.algorithms.summarizing import Summarizing

__all__ = [
    "FIFO",
    "BaseAlgorithm",
    "Composite",
    "Importance",
    "KeepSystem",
    "NotRecalled",
    "Summarizing",
    "TimeWindow",
    "TokenBudget",
]
