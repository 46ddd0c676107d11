"""Backends: frameworks at one precision."""
