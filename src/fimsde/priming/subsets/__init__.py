"""Averages over all subsets of the terms of a polynomial."""
