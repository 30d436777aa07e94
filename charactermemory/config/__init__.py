"""What the core is configured with: settings from a mapping, and the rule for collection names."""

from charactermemory.config.collection_name import validate_collection_name
from charactermemory.config.reference import SettingDoc, describe_settings
from charactermemory.config.settings import Settings

__all__ = ["SettingDoc", "Settings", "describe_settings", "validate_collection_name"]
