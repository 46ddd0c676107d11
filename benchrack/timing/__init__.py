"""On a clock and a synchroniser that are given: warm-up, rounds, stop rule, the parts of a batch,
several processes in step. It imports statistics and the vocabulary.
"""
