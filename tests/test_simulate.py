"""The stepper, deterministically: the right chain on the right grid, for any number of paths, in flat memory.

Moments, orders and laws are in statistics/test_simulate.py.
"""

import ast
import re
import sys
import tracemalloc
from pathlib import Path

import numba
import numpy as np
import pytest
import torch

from fimsde.equations.changes import ExpSDE
from fimsde.equations.sde import FunctionSDE
from fimsde.simulate import euler_step, simulate
from memory import run_measured
from problems import GeometricBrownianMotion, OrnsteinUhlenbeck

SOURCE = Path(__file__).parent.parent / "src"
OU = OrnsteinUhlenbeck(dim=2)
START = np.random.default_rng(0).standard_normal((6, 2))
GRIDS = [np.cumsum(np.random.default_rng(k).uniform(0.1, 1.0, 3 + 4 * k)) for k in range(6)]
CLOCK = FunctionSDE(1, np.ones_like, np.zeros_like)  # x = t: where a path ends shows which times it went through
EXPLOSIVE = FunctionSDE(1, lambda x: x**3, np.zeros_like)


def chain(sde, x, times, substeps, seed, path):
    """The definition, one state at a time: path j is driven by the generator of (seed, j)."""
    noise = np.random.Generator(np.random.Philox(key=[seed, path]))
    states = [x]
    for gap in np.diff(times):
        for _ in range(substeps):
            z = noise.standard_normal(len(x))
            x = euler_step(x, sde.drift(x[None])[0], sde.diffusion(x[None])[0], gap / substeps, z)
        states.append(x)
    return np.array(states)


def test_a_step_is_the_same_for_scalars_arrays_tensors_and_compiled_code():
    x, drift, diffusion, noise = np.random.default_rng(0).standard_normal((4, 5))
    expected = x + drift * 0.25 + diffusion * 0.5 * noise
    np.testing.assert_array_equal(euler_step(x, drift, diffusion, 0.25, noise), expected)
    compiled = numba.njit(euler_step)
    assert [compiled(*args, 0.25, z) for *args, z in zip(x, drift, diffusion, noise, strict=True)] == expected.tolist()
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, drift, diffusion, noise)]
    ahead = euler_step(*tensors[:3], torch.tensor(0.25), tensors[3])
    np.testing.assert_array_equal(ahead.detach().numpy(), expected)
    ahead.sum().backward()
    np.testing.assert_array_equal(tensors[1].grad, 0.25)
    np.testing.assert_array_equal(tensors[2].grad, 0.5 * noise)


@pytest.mark.parametrize("substeps", [1, 3])
def test_every_path_is_its_own_euler_chain_on_its_own_grid(substeps):
    paths = simulate(OU, START, GRIDS, substeps=substeps, seed=5)
    for k, grid in enumerate(GRIDS):
        expected = chain(OU, START[k], grid, substeps, seed=5, path=k)
        np.testing.assert_array_equal(paths.values[k, : len(grid)], expected)
        np.testing.assert_array_equal(paths.times[k, : len(grid)], grid)
        assert paths.mask[k].tolist() == [True] * len(grid) + [False] * (len(GRIDS[-1]) - len(grid))
        assert np.isnan(paths.values[k, len(grid) :]).all()
        assert (paths.times[k, len(grid) :] == grid[-1]).all()
    assert paths.num_diverged == 0
    assert np.isnan(paths.diverged_at).all()


def test_a_shared_grid_may_be_given_in_any_way():
    grid = [0.0, 0.5, 2.0]
    expected = simulate(OU, START, np.array(grid), seed=1).values
    for times in (grid, tuple(grid), np.array([grid]), np.array([grid] * 6), [np.array(grid)] * 6):
        np.testing.assert_array_equal(simulate(OU, START, times, seed=1).values, expected)


def test_paths_do_not_depend_on_how_many_run():
    everyone = simulate(OU, START, GRIDS, substeps=2, seed=3)
    for num in (1, 2, 5):
        fewer = simulate(OU, START[:num], GRIDS[:num], substeps=2, seed=3)
        width = fewer.values.shape[1]
        np.testing.assert_array_equal(fewer.values, everyone.values[:num, :width])
    crowd = simulate(OU, np.vstack([START, np.zeros((500, 2))]), np.arange(40) * 0.1, seed=3)
    np.testing.assert_array_equal(crowd.values[:6], simulate(OU, START, np.arange(40) * 0.1, seed=3).values)


@pytest.mark.parametrize(("block", "numbers"), [(1, 2**20), (7, 2**20), (256, 1), (256, 30), (10**6, 2**30)])
def test_paths_do_not_depend_on_the_size_of_blocks(block, numbers, monkeypatch):
    times = [np.arange(n) * 0.01 for n in (300, 2, 1, 40, 257, 258)]
    expected = simulate(OU, START, times, substeps=2, seed=3)
    module = sys.modules["fimsde.simulate"]  # the attribute fimsde.simulate is the function
    monkeypatch.setattr(module, "_BLOCK", block)
    monkeypatch.setattr(module, "_BLOCK_NUMBERS", numbers)
    np.testing.assert_array_equal(simulate(OU, START, times, substeps=2, seed=3).values, expected.values)


def test_the_seed_decides_the_noise():
    values = [simulate(OU, START, np.arange(9.0), seed=seed).values for seed in (0, 0, 1, 2**64 - 1)]
    np.testing.assert_array_equal(values[0], values[1])
    for other in values[2:]:
        assert (other[:, 1:] != values[0][:, 1:]).all()


def test_paths_of_one_call_have_different_noise():
    ends = simulate(OU, np.zeros((50, 2)), [0.0, 1.0]).values[:, 1]
    assert len(np.unique(ends)) == 100


def test_grids_need_not_be_divisible_by_the_longest_step():
    calls = []
    sde = FunctionSDE(1, lambda x: (calls.append(len(x)), np.ones_like(x))[1], np.zeros_like)
    grid = np.array([1.0, 1.25, 1.6, 2.0])
    paths = simulate(sde, np.ones((1, 1)), grid, dt=0.1)
    np.testing.assert_allclose(paths.values[0, :, 0], grid, rtol=1e-14)
    assert len(calls) == 3 + 4 + 4


@pytest.mark.parametrize("grid", [np.arange(11) * 0.1, 7 + np.arange(11) * 0.1, 1e6 + np.arange(11) * 0.1])
def test_gaps_of_one_step_up_to_rounding_are_one_step(grid):
    calls = []
    sde = FunctionSDE(1, lambda x: (calls.append(len(x)), np.ones_like(x))[1], np.zeros_like)
    simulate(sde, np.zeros((1, 1)), grid, dt=0.1)
    assert len(calls) == 10


@pytest.mark.parametrize("options", [{}, {"substeps": 7}, {"dt": 0.3}, {"dt": 1e9}])
def test_a_tiny_last_step_is_a_step(options):
    grid = np.array([0.0, 1.0, 1.0 + 2**-40])
    values = simulate(CLOCK, np.zeros((1, 1)), grid, **options).values[0, :, 0]
    np.testing.assert_allclose(values, grid, rtol=1e-15)
    assert values[2] > values[1]


def test_a_grid_of_one_time_is_the_start_and_no_paths_are_no_paths():
    alone = simulate(OU, START, [3.0])
    np.testing.assert_array_equal(alone.values, START[:, None])
    assert alone.mask.all()
    nobody = simulate(OU, np.zeros((0, 2)), np.arange(4.0))
    assert nobody.values.shape == (0, 4, 2)
    assert nobody.num_diverged == 0


def test_the_start_is_not_changed():
    x0 = START.copy()
    simulate(OU, x0, np.arange(5.0)).values[:] = -1
    np.testing.assert_array_equal(x0, START)


def test_divergence_is_recorded_with_mask_and_time_and_good_paths_do_not_notice():
    """The solution of x' = x³ from 0.6 blows up at 1.39, from 0.1 at 50."""
    x0, grid = np.array([[0.1], [0.6], [-0.1], [-0.6]]), np.arange(5.0)
    paths = simulate(EXPLOSIVE, x0, grid, substeps=50)
    np.testing.assert_array_equal(paths.diverged_at, [np.nan, 2.0, np.nan, 2.0])
    assert paths.num_diverged == 2
    assert paths.mask.tolist() == [[True] * 5, [True, True, False, False, False]] * 2
    assert np.isnan(paths.values[~paths.mask]).all()
    assert np.isfinite(paths.values[paths.mask]).all()
    np.testing.assert_array_equal(paths.values[0], simulate(EXPLOSIVE, x0[:1], grid, substeps=50).values[0])


def test_a_diverged_path_does_not_come_back():
    """A sawtooth 0, 1, ..., 10, 0, ... is below the limit of 5 again soon after, in this block and in later ones."""
    sawtooth = FunctionSDE(1, lambda x: np.where(x > 9.5, -10.0, 1.0), np.zeros_like)
    paths = simulate(sawtooth, np.array([[0.0], [2.0]]), np.arange(1000.0), limit=5.0)
    assert paths.diverged_at.tolist() == [5.0, 3.0]
    assert paths.mask.sum(axis=1).tolist() == [5, 3]
    stuck = FunctionSDE(1, lambda x: np.where(x > 5, np.inf, 1.0), np.zeros_like)
    assert simulate(stuck, np.zeros((1, 1)), np.arange(1000.0)).mask.sum() == 7


def test_the_limit_is_looked_at_on_the_grid_only():
    """x = t reaches 2 exactly at a grid time: at the limit counts as beyond it."""
    grid = np.arange(5.0)
    paths = simulate(CLOCK, np.zeros((1, 1)), grid, substeps=4, limit=2.0)
    np.testing.assert_array_equal(paths.values[0, :, 0], [0, 1, np.nan, np.nan, np.nan])
    assert paths.diverged_at == [2.0]
    there_and_back = FunctionSDE(1, lambda x: np.where(x < 0.3, 8.0, -6.0), np.zeros_like)  # 0, 4, 1 in half steps
    assert simulate(there_and_back, np.zeros((1, 1)), [0.0, 1.0], substeps=2, limit=3.5).num_diverged == 0
    assert simulate(there_and_back, np.zeros((1, 1)), [0.0, 0.5, 1.0], limit=3.5).diverged_at == [0.5]


def test_the_limit_holds_for_every_component():
    climbs = FunctionSDE(2, lambda x: np.ones_like(x) * [0.0, 1.0], np.zeros_like)
    paths = simulate(climbs, np.zeros((1, 2)), np.arange(5.0), limit=2.5)
    assert paths.diverged_at == [3.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 100.0, -250.0])
def test_a_start_that_is_already_invalid_has_diverged_at_the_first_time(bad):
    x0 = np.array([[1.0, 1.0], [1.0, bad]])
    for grid in ([4.0, 5.0, 6.0], [4.0]):
        paths = simulate(OU, x0, grid, limit=100.0)
        np.testing.assert_array_equal(paths.diverged_at, [np.nan, 4.0])
        assert np.isnan(paths.values[1]).all()
        assert paths.mask.tolist() == [[True] * len(grid), [False] * len(grid)]


def test_fields_are_never_asked_at_places_that_do_not_exist():
    def cautious(x):
        assert np.isfinite(x).all()
        assert len(x)
        return x**3

    paths = simulate(FunctionSDE(1, cautious, cautious), np.array([[3.0], [np.nan], [1e200]]), np.arange(20.0))
    assert paths.num_diverged == 3


def test_a_diffusion_that_does_not_exist_ends_the_path():
    """x = 1.5 - t, with a negative g below zero: the state at 2 is still one, the next is not."""
    sde = FunctionSDE(1, lambda x: -np.ones_like(x), lambda x: 0 * np.sqrt(x))
    paths = simulate(sde, np.array([[1.5], [9.0]]), np.arange(5.0))
    np.testing.assert_array_equal(paths.values[0, :, 0], [1.5, 0.5, -0.5, np.nan, np.nan])
    np.testing.assert_array_equal(paths.diverged_at, [3.0, np.nan])


def test_stepping_out_of_the_domain_of_a_transformed_equation_is_a_divergence():
    positive = ExpSDE(FunctionSDE(1, lambda z: -z, lambda z: np.full_like(z, 2.0)))
    paths = simulate(positive, np.ones((200, 1)), np.arange(0, 5, 0.5), seed=0)
    assert paths.num_diverged > 100  # the solution stays positive, Euler's large steps do not
    negative = np.nansum(paths.values[..., 0] <= 0, axis=1)
    assert (negative <= 1).all()  # one step out of the domain, and the path has ended
    assert (negative[~np.isnan(paths.diverged_at)] == 1).all()


def test_valid_states_become_observations():
    x0 = np.array([[0.1], [0.6], [np.nan], [0.2]])
    grids = [np.arange(5.0), np.arange(5.0), np.arange(5.0), np.arange(3.0)]
    obs = simulate(EXPLOSIVE, x0, grids, substeps=50).observations()
    assert np.diff(obs.path_starts).tolist() == [5, 2, 3]
    np.testing.assert_array_equal(obs.path(2)[0], [0, 1, 2])


def peak_memory(num_steps):
    tracemalloc.start()
    end = simulate(CLOCK, np.zeros((1, 1)), [0.0, 1.0], substeps=num_steps).values[0, -1, 0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(end, 1.0, rtol=1e-9)
    return peak


def test_memory_does_not_grow_with_steps():
    peak_memory(10)  # whatever is allocated once
    assert peak_memory(20_000) < 1.1 * peak_memory(1000)


@pytest.mark.slow
def test_a_million_steps_run_in_flat_memory():
    """Buys the size of the promise itself, in memory of the process: 10⁶ states alone would be 8 MB."""
    program = (
        "import numpy as np; from fimsde.equations.sde import FunctionSDE; from fimsde.simulate import simulate\n"
        "clock = FunctionSDE(1, np.ones_like, np.zeros_like)\n"
        "for num in (1000, 1_000_000):\n"
        "    end = simulate(clock, np.zeros((1, 1)), [0.0, 1.0], substeps=num).values[0, -1, 0]\n"
        "    print(end, peak())\n"
    )
    (_, few), (end, many) = [map(float, line.split()) for line in run_measured(program).splitlines()]
    assert abs(end - 1) < 1e-9
    assert many - few < 2  # MB


def test_memory_does_not_grow_with_paths_beyond_the_result():
    def peak(num_paths):
        tracemalloc.start()
        simulate(CLOCK, np.zeros((num_paths, 1)), np.arange(3.0))
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used / num_paths

    peak(10)
    assert peak(4000) < 3000  # bytes per path: its generator above all; noise for unused steps would be 2000 more


# --- One stepper: no other module writes x + f dt + s sqrt(dt) z for itself. ---

STEP_NAMES = re.compile(r"^(dt|dtau|d_tau|h|delta|delta_t|step|steps|step_length|step_size|length|lengths|gap|gaps)$")
ROOT_NAMES = re.compile(r"(sqrt|root)_?(dt|dtau|h|step|gap)$|^(dt|dtau|step|gap)_?(sqrt|root)")
NOISE_NAMES = re.compile(r"noise|normal|randn|gauss|brownian|increment|^(dw|z|xi|eps|epsilon)$")


def euler_formulas(source):
    """Lines with a product of a square root of a step and something random: nobody needs it but a stepper."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            factors = _factors(node)
            if any(map(_is_root_of_step, factors)) and any(_mentions(f, NOISE_NAMES) for f in factors):
                lines.append(node.lineno)
    return sorted(set(lines))


def _factors(node):
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.MatMult):
        return _factors(node.left) + _factors(node.right)
    return [node]


def _names(node):
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id.lower()
        elif isinstance(part, ast.Attribute):
            yield part.attr.lower()


def _mentions(node, pattern):
    return any(pattern.search(name) for name in _names(node))


def _is_root_of_step(node):
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        return "sqrt" in set(_names(node.func)) and _mentions(node, STEP_NAMES)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return ast.unparse(node.right) in ("0.5", "1 / 2") and _mentions(node.left, STEP_NAMES)
    return isinstance(node, ast.Name | ast.Attribute) and any(ROOT_NAMES.search(n) for n in _names(node))


def test_there_is_one_stepper():
    found = {
        f"{file.relative_to(SOURCE)}:{line}"
        for file in SOURCE.rglob("*.py")
        for line in euler_formulas(file.read_text())
    }
    lines = (SOURCE / "fimsde" / "simulate.py").read_text().splitlines()
    allowed = lines.index("    return x + drift * dt + diffusion * dt**0.5 * noise") + 1
    assert found == {f"fimsde/simulate.py:{allowed}"}, "call fimsde.simulate.euler_step instead"


@pytest.mark.parametrize(
    "formula",
    [
        "x + f * dt + s * np.sqrt(dt) * z",
        "x += f * h + s * h**0.5 * rng.standard_normal(x.shape)",
        "dw = torch.randn(n) * dt.sqrt()",
        "y[i + 1] = y[i] + a * step + math.sqrt(step) * b * noise[i]",
        "sqrt_dt = dt**0.5; x = x + f * dt + g * sqrt_dt * eps",
        "x = x + drift(x) * gaps[k] + diffusion(x) * np.sqrt(gaps[k]) * xi[k]",
        "brownian_increments = self.dt ** (1 / 2) * normals",
    ],
)
def test_that_search_finds_other_spellings_of_the_step(formula):
    assert euler_formulas(formula) == [1]


@pytest.mark.parametrize(
    "innocent",
    [
        "z = residual / (diffusion * np.sqrt(dtau))",
        "return d * (self.scale * np.sqrt(self.time_scale))",
        "log_density = -0.5 * (dy - drift * dtau) ** 2 / (diffusion_sq * dtau)",
        "noisy = clean + noise_std * half_range * noise",
        "euler_step(x, drift, diffusion, dt, noise)",
    ],
)
def test_that_search_raises_no_false_alarm(innocent):
    assert euler_formulas(innocent) == []


def test_geometric_brownian_motion_stays_at_zero():
    """Multiplicative noise vanishes with the state: a stepper that adds noise without the diffusion would leave."""
    assert (simulate(GeometricBrownianMotion(), np.zeros((3, 1)), np.arange(9.0)).values == 0).all()
