"""Relays of these tests are started and driven as those of the driver's tests are."""

from tests.driver.conftest import course, killed, meanwhile

__all__ = ["course", "killed", "meanwhile"]
