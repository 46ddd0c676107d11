"""The outer ring of the command line: `benchrack doctor, list, report, cache`. It imports all;
nothing imports it.
"""
