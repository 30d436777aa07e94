"""The Django app of the memory: commands, tables, admin and API on top of charactermemory."""
