"""The synthetic world the model learns from: random polynomial SDEs, their paths, and how they are observed."""
