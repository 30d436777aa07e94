"""Revising: linking, correcting and forgetting what is stored, without rewriting it."""
