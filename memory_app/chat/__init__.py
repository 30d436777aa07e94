"""The chat window in the host's database: storage, pages, endpoints and same-day recall."""
