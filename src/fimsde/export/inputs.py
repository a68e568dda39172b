"""What exported graphs take, for those who run them: a data set as named arrays."""

from fimsde.model.arrays import bank_inputs, token_inputs

__all__ = ["bank_inputs", "token_inputs"]
