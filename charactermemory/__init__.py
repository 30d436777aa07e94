"""The memory itself, in pure Python: importable without Django and without any store engine."""
