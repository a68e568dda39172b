"""Verdicts: one file per question. A statistic with a known null law, and the words for what it says."""
