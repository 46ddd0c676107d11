"""The machine underneath: devices, cores, memory, where a process runs, what else runs there. It
imports the vocabulary.
"""
