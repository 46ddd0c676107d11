"""The questions that a case can ask, a module each, and what they measure with. It imports timing,
energy, data and verdict.
"""
