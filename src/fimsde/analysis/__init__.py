"""What an equation says: fixed points, potentials, densities, exit times, a formula, and how far to trust it.

One file per topic: plain functions of an equation and its observations, each returning a small frozen dataclass. Every
`Result` has them as methods.
"""
