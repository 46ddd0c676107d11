"""A data set as inputs of a model, and outputs against FP32's. It imports the vocabulary, the cache
and the machine.
"""
