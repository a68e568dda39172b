"""How far an equation is from the truth, or from data it has not seen."""
