"""The rules, each of which says why a number must not be quoted. It imports statistics, the
vocabulary and energy.
"""
