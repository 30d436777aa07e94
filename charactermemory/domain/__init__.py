"""What a memory is made of: objects, scenes, beliefs, links, and the rules they obey. No I/O."""
