"""Which terms an equation has, and around which place."""
