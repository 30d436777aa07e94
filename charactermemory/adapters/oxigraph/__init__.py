"""The graph port on SPARQL 1.1: one adapter, three connections (DESIGN R3)."""
