"""Where a case runs: in this process or in a worker; from its preparation to its verdict.
It imports scenarios.
"""
