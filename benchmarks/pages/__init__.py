"""The figures in README.md, the documentation and the model card, written from stored results by `make tables`."""
