"""The REST API: the facade over HTTP, for programs in any language.

Its views stand on a base of their own and take nothing from the host's `REST_FRAMEWORK` settings.
"""
