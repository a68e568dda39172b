"""The one protocol of a stochastic differential equation, and changes of variables."""
