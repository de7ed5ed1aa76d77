"""Readers of what real agents wrote, and what the tables keep of it."""
