"""Encoder and query head as graphs of torch.export and ONNX, with dynamic lengths; see docs/export.md."""

from fimsde.export.write import export_model
from fimsde.model.arrays import bank_inputs, token_inputs

__all__ = ["bank_inputs", "export_model", "token_inputs"]
