"""Pretraining on the synthetic prior."""
