"""Compiled kernels of the wave family: fields at one state, and Euler paths."""
# mypy: ignore-errors
# (numba infers the types of kernels)

import inspect
from typing import NamedTuple

import numpy as np

from fimsde.compiler import njit
from fimsde.simulate import euler_step

_euler_step = njit(inspect.unwrap(euler_step))  # unwrap: under test, functions of the package carry shape checks


class Waves(NamedTuple):
    """f_i = -linear_i x_i - cubic_i x_i³ + sum_k amplitude_ik s(wave_ik · x + phase_ik), s = sin or tanh;
    sqrt(g_i) = level_i exp(sum_k swing_ik sin(ripple_ik · x + shift_ik))."""

    linear: np.ndarray  # (dim,)
    cubic: np.ndarray  # (dim,)
    amplitude: np.ndarray  # (dim, waves)
    wave: np.ndarray  # (dim, waves, dim)
    phase: np.ndarray  # (dim, waves)
    is_switch: np.ndarray  # bool (dim, waves): tanh instead of sin
    level: np.ndarray  # (dim,)
    swing: np.ndarray  # (dim, ripples)
    ripple: np.ndarray  # (dim, ripples, dim)
    shift: np.ndarray  # (dim, ripples)


@njit(cache=True)
def fields_at(waves, x, drift, diffusion):
    """Drift and diffusion at one state."""
    for i in range(len(x)):
        total = -waves.linear[i] * x[i] - waves.cubic[i] * x[i] ** 3
        for k in range(waves.amplitude.shape[1]):
            angle = waves.phase[i, k]
            for j in range(len(x)):
                angle += waves.wave[i, k, j] * x[j]
            total += waves.amplitude[i, k] * (np.tanh(angle) if waves.is_switch[i, k] else np.sin(angle))
        drift[i] = total
        exponent = 0.0
        for k in range(waves.swing.shape[1]):
            angle = waves.shift[i, k]
            for j in range(len(x)):
                angle += waves.ripple[i, k, j] * x[j]
            exponent += waves.swing[i, k] * np.sin(angle)
        diffusion[i] = waves.level[i] * np.exp(exponent)


@njit(cache=True)
def fields(waves, x, drift, diffusion):
    """Drift and diffusion at many states (queries, dim)."""
    for q in range(len(x)):
        fields_at(waves, x[q], drift[q], diffusion[q])


@njit(cache=True)
def run_path(waves, dt, substeps, limit, noise, values):
    """Fill `values` (times, dim) from its first row on; False as soon as the path leaves the limit."""
    dim = values.shape[1]
    x, drift, diffusion = values[0].astype(np.float64), np.empty(dim), np.empty(dim)
    for time in range(1, len(values)):
        for step in range(substeps):
            fields_at(waves, x, drift, diffusion)
            for i in range(dim):
                x[i] = _euler_step(x[i], drift[i], diffusion[i], dt, noise[(time - 1) * substeps + step, i])
        for i in range(dim):
            if not abs(x[i]) < limit:
                return False
            values[time, i] = x[i]
    return True
