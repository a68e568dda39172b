"""From arrays, tables and files to checked observations, transitions and normalised coordinates."""
