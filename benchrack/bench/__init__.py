"""What a scenario measures with: a session in its steady state, memory that is followed, meters and
the host watched beside it. It imports timing, energy, data and what stands above.
"""
