"""Measurements; each module runs by itself and prints what it found."""
