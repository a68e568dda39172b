"""numba kernels of Gaussian processes on nodes."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit


@njit(cache=True, error_model="numpy")
def normal_kernel_root(places, length, left_out):
    """L with L L' ≈ exp(-|x_i - x_k|² / 2 length²): a pivoted Cholesky factor of as few columns as will do."""
    num, dim = places.shape
    root, left = np.zeros((num, num)), np.ones(num)
    columns = 0
    while columns < num:
        pivot = np.argmax(left)
        if left[pivot] < left_out:
            break
        scale = 1.0 / np.sqrt(left[pivot])
        for i in range(num):
            square = 0.0
            for j in range(dim):
                square += (places[i, j] - places[pivot, j]) ** 2
            total = np.exp(-0.5 * square / length**2)
            for k in range(columns):
                total -= root[i, k] * root[pivot, k]
            root[i, columns] = total * scale
        for i in range(num):
            left[i] -= root[i, columns] ** 2
        left[pivot] = 0.0
        columns += 1
    return root[:, :columns].copy()
