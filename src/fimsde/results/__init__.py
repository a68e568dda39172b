"""Results: an equation with its data, how it is made, and how it is kept on disk."""
