"""Models: networks with their preprocessing and their weights."""
