"""Meters beside a measurement: samples, integrals, windows, uncertainty. It imports
the vocabulary.
"""
