"""numba kernels of regressions: sums over windows of products of instruments, features and responses."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit


@njit(cache=True)
def instrumental_sums(weight, instrument, integral, response, terms):
    """cross_d = sum_i w_id z_i F_i' and right_d = sum_i w_id z_i r_id over windows i, of the first terms.

    One column of weights may stand for all components d; then there is one cross matrix for all.
    """
    columns, dim = weight.shape[1], response.shape[1]
    cross, right = np.zeros((columns, terms, terms)), np.zeros((dim, terms))
    for i in range(len(weight)):
        for d in range(columns):
            for k in range(terms):
                scaled = weight[i, d] * instrument[i, k]
                for q in range(terms):
                    cross[d, k, q] += scaled * integral[i, q]
        for d in range(dim):
            scaled = weight[i, d % columns] * response[i, d]
            for k in range(terms):
                right[d, k] += scaled * instrument[i, k]
    return cross, right


@njit(cache=True)
def product_sums(weight, features, pairs):
    """sum_i w_id times the product of each pair of features."""
    products, out = np.empty(len(pairs)), np.zeros((weight.shape[1], len(pairs)))
    for i in range(len(weight)):
        for k in range(len(pairs)):
            products[k] = features[i, pairs[k, 0]] * features[i, pairs[k, 1]]
        for d in range(weight.shape[1]):
            for k in range(len(pairs)):
                out[d, k] += weight[i, d] * products[k]
    return out


@njit(cache=True)
def score_sums(score, least, instrument, joined, terms):
    """Covariance of sum_i s_id z_i, where scores of windows that follow each other within two steps depend.

    sum_i (s_i² + l_i²) z_i z_i' + sum_ij s_i s_j (z_i z_j' + z_j z_i') over neighbours j = i - 1, i - 2 of i.
    """
    dim = score.shape[1]
    out, row = np.zeros((dim, terms, terms)), np.empty(terms)
    for i in range(len(score)):
        near = 0
        while near < 2 and near < i and joined[i - 1 - near]:
            near += 1
        for d in range(dim):
            own = score[i, d] ** 2 + least[i, d] ** 2
            for q in range(terms):
                row[q] = own * instrument[i, q]
            for lag in range(1, near + 1):
                both = 2.0 * score[i, d] * score[i - lag, d]
                for q in range(terms):
                    row[q] += both * instrument[i - lag, q]
            for k in range(terms):
                z = instrument[i, k]
                for q in range(terms):
                    out[d, k, q] += z * row[q]
    return 0.5 * (out + out.transpose((0, 2, 1)))
