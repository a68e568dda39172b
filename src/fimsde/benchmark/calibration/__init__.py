"""`fimsde bench calibration`: how often intervals of the posterior hold the truth."""
