"""A second family for training: equations that no polynomial fits."""
