"""What test authors share: a memory on real stores whose every port is watched, and small makers of plans.

`rig` (see `rig.py`) is the memory with its spies; `memory` is the memory alone; `plans.py` makes drafts and
plans with ids one can read. All of it is deterministic: fixed ids, a clock that steps, hashed embeddings.
"""
