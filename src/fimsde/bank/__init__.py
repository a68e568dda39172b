"""What classical statistics knows about the data, in closed form: the candidates that prime the model's queries."""
