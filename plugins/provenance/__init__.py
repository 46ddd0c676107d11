"""Provenance: where a number comes from. One topic a module."""
