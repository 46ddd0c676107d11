"""A case on several machines: how they find, trust and follow each other. It imports
distributed.
"""
