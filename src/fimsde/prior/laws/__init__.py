"""The laws of random polynomials, drawn inside compiled code."""
