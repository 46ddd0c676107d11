"""What everybody speaks of: frozen dataclasses and protocols of cases, models, devices, backends,
hardware, meters, scenarios and what they found, and the hooks. Plugins get them from
`benchrack.api`; every room may import them.
"""
