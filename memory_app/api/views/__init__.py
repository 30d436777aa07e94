"""The operations, grouped by what they do to a memory."""
