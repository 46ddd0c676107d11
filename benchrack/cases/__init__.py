"""Sweep files and options to cases; how long they take; what an earlier run has. It imports the
registry and what stands above.
"""
