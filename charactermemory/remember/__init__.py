"""Remembering: drafts become a plan, the plan is validated, a commit stores it whole."""
