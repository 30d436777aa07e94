"""The life of a sample companion, for the quickstart: its text, and the loader that checks it."""
