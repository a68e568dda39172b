"""Textbook systems outside the paper's benchmark, to report on and never to choose a model by.

Most fields here are no polynomials of degree three (drift) and two (squared diffusion), the class the paper trains on:
sines, saturating and rational functions, Gaussian wells. The square-root process, geometric Brownian motion, van der
Pol and FitzHugh-Nagumo are in that class, but live on a half line or at two speeds, which random polynomials hardly do.

The recipe is that of `canonical`, with observations every few simulation steps, so that no method profits from data
that are an Euler chain themselves. Boxes cover the states that a long trajectory visits.
"""

import numpy as np

from fimsde.shapes import Array, Float
from fimsde.systems.canonical import System, cube


def _hill_production(x: Float[Array, "queries 1"]) -> Float[Array, "queries 1"]:
    fourth = (x * x) ** 2
    return 0.2 + 2 * fourth / (1 + fourth)


# Mueller and Brown (1979), Theor. Chim. Acta 53, potential divided by 20
_MULLER_BROWN = np.array(  # depth, curvatures xx, xy, yy, and centre of the four Gaussians
    [
        [-10.0, -1.0, 0.0, -10.0, 1.0, 0.0],
        [-5.0, -1.0, 0.0, -10.0, 0.0, 0.5],
        [-8.5, -6.5, 11.0, -6.5, -0.5, 1.5],
        [0.75, 0.7, 0.6, 0.7, -1.0, 1.0],
    ]
)


def _muller_brown_drift(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
    depth, xx, xy, yy, c1, c2 = _MULLER_BROWN.T
    u, v = x[:, :1] - c1, x[:, 1:] - c2  # (queries, 4)
    wells = depth * np.exp(xx * u**2 + xy * u * v + yy * v**2)
    return -np.array([(wells * (2 * xx * u + xy * v)).sum(axis=1), (wells * (xy * u + 2 * yy * v)).sum(axis=1)]).T


SINE_WELLS = System(
    name="sine_wells",
    title="Sine wells",
    drift=lambda x: 3 * np.sin(3 * x) - 0.3 * x,
    diffusion=lambda x: 1.5 + 0.5 * np.cos(x),
    initial_state=(0.0,),
    box=((-4.0, 4.0),),
    stride=10,
)
FINE_SINE_WELLS = System(
    name="fine_sine_wells",
    title="Fine sine wells",
    drift=lambda x: 6 * np.sin(6 * x) - 0.8 * x,
    diffusion=lambda x: np.full_like(x, 1.5),
    initial_state=(0.0,),
    box=((-3.0, 3.0),),
    stride=10,
)
TANH_SWITCH = System(
    name="tanh_switch",
    title="Tanh switch",
    drift=lambda x: 3 * np.tanh(3 * x) - 2 * x,
    diffusion=lambda x: 0.5 + 1 / (1 + x**2),
    initial_state=(1.5,),
    box=((-2.5, 2.5),),
    stride=10,
)
HILL_SWITCH = System(  # a gene that activates itself; Langevin noise of production and decay, now and then below zero
    name="hill_switch",
    title="Hill switch",
    drift=lambda x: 10 * (_hill_production(x) - x),
    diffusion=lambda x: np.sqrt(0.6 * (_hill_production(x) + np.maximum(x, 0))),
    initial_state=(1.0,),
    box=((0.0, 3.2),),
    stride=10,
)
SQUARE_ROOT = System(
    name="square_root",
    title="Cox-Ingersoll-Ross",
    drift=lambda x: 2 * (1 - x),
    diffusion=lambda x: 0.8 * np.sqrt(np.maximum(x, 0)),
    initial_state=(1.0,),
    box=((0.0, 2.5),),
    stride=10,
)
GEOMETRIC_BROWNIAN = System(  # ten years of daily prices
    name="geometric_brownian",
    title="Geometric Brownian motion",
    drift=lambda x: 0.05 * x,
    diffusion=lambda x: 0.2 * x,
    initial_state=(1.0,),
    box=((0.25, 4.0),),
    dt=1 / 2520,
    stride=10,
    length=2520,
)
VAN_DER_POL = System(
    name="van_der_pol",
    title="Van der Pol oscillator",
    drift=lambda x: np.array([x[:, 1], 3 * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]]).T,
    diffusion=lambda x: np.broadcast_to([0.2, 0.5], x.shape),
    initial_state=(2.0, 0.0),
    box=((-2.5, 2.5), (-6.0, 6.0)),
    stride=10,
)
FITZHUGH_NAGUMO = System(  # the textbook parameters (0.08, 0.7, 0.8, current 0.5) with time in units of ten
    name="fitzhugh_nagumo",
    title="FitzHugh-Nagumo neuron",
    drift=lambda x: (
        np.array([10 * (x[:, 0] - cube(x[:, 0]) / 3 - x[:, 1] + 0.5), 0.8 * (x[:, 0] + 0.7 - 0.8 * x[:, 1])]).T
    ),
    diffusion=lambda x: np.broadcast_to([0.5, 0.2], x.shape),
    initial_state=(-1.0, -0.5),
    box=((-2.5, 2.5), (-1.0, 2.0)),
    stride=10,
)
MULLER_BROWN = System(
    name="muller_brown",
    title="Müller-Brown surface",
    drift=_muller_brown_drift,
    diffusion=lambda x: np.full_like(x, 1.6),
    initial_state=(0.6, 0.0),
    box=((-1.6, 1.2), (-0.4, 2.0)),
    dt=0.0005,
    stride=10,
)
MULTI_WELL_PLANE = System(
    name="multi_well_plane",
    title="Multi-well plane",
    drift=lambda x: 3 * np.sin(3 * x) - 0.8 * x + np.sin(x[:, ::-1]) * [1, -1],
    diffusion=lambda x: np.sqrt(2 + np.cos(x[:, ::-1])),
    initial_state=(0.0, 0.0),
    box=((-3.5, 3.5), (-3.5, 3.5)),
    stride=10,
)
OUT_OF_CLASS = (
    SINE_WELLS,
    FINE_SINE_WELLS,
    TANH_SWITCH,
    HILL_SWITCH,
    SQUARE_ROOT,
    GEOMETRIC_BROWNIAN,
    VAN_DER_POL,
    FITZHUGH_NAGUMO,
    MULLER_BROWN,
    MULTI_WELL_PLANE,
)
