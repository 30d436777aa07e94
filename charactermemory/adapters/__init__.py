"""Implementations of the ports; third-party stores and SDKs live only here."""
