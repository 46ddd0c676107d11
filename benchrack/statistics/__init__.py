"""Samples to intervals: medians, percentiles, blocks, trends. It knows no benchmark, and
imports `errors` and the like alone; everybody may import it.
"""
