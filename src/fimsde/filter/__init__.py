"""Filters: what an equation expects of the next observation, given all earlier ones and the noise of the instrument."""
