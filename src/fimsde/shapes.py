"""Array types and the legend of axis names used in every signature.

batch   equations in a batch      paths    paths of one system     times   observations of a path
n       transitions               dim      state dimension         queries locations asked about
points  observations, all paths   embed    embedding width         heads   attention heads
*lead   any leading axes          degrees  polynomial degrees      terms   monomials
"""

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Shaped

Array = np.ndarray

__all__ = ["Array", "Bool", "Float", "Float64", "Int", "Shaped"]
