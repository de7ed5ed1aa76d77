"""Relays that really run, for the contract's sentences."""

from tests.driver.conftest import course, killed, meanwhile

__all__ = ["course", "killed", "meanwhile"]
