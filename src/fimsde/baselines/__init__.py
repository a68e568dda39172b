"""The estimators of others, written from their papers or called from their packages: each fits an equation or paths."""
