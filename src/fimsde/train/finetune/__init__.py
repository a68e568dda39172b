"""Adapting a model to one data set."""
