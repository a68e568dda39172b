"""Files and folders that the package writes: complete or absent, and never in place of what is not its own."""
