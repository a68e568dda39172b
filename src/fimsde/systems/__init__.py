"""Systems with known answers, and the real series of the paper: where benchmark data come from."""
