"""Hypotheses about drift and diffusion: posteriors in closed form, weighed by their evidence."""
