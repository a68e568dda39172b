"""Files and folders on disk."""
