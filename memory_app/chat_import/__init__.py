"""Chats from elsewhere as material for a memory: the readers of chat files and the importer on top."""
