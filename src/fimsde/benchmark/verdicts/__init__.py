"""Calibration of the verdicts: how often they cry wolf, and how often they name what is wrong."""
