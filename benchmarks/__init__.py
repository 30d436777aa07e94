"""Measurements of what DESIGN §5 promises; each module runs by itself and prints what it found."""
