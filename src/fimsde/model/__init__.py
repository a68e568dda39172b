"""The recognition model: transitions in, drift and diffusion at any location out."""
