"""Management of the memory from the command line."""
