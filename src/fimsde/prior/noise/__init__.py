"""Random numbers made inside compiled code, the same on every machine."""
