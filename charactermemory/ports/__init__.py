"""What the memory asks of its stores: Protocols that adapters fulfil and use cases depend on."""
