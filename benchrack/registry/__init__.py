"""Finds plugins, isolates a broken one, names who provided what. It imports the vocabulary."""
