"""Suites against specialists: the gallery of StochasticForceInference, noisy cubic systems, bursting flows."""
