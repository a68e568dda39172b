"""Families of random systems on which estimators are compared: some to develop on, others only to report on."""
