"""The primed variant: same code path, queries that carry candidates, and laws that hold with random weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fimsde.bank.bank import ask, make_bank
from fimsde.bank.hypotheses import NUM_DIFFUSION, NUM_DRIFT
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.errors import ConfigError
from fimsde.model.bank_features import answers
from fimsde.model.banks import to_banks
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.results.make import estimate
from fimsde.simulate import simulate
from problems import OrnsteinUhlenbeck

MODEL = FIMSDE(ModelConfig.preset("primed-tiny"), seed=1).double().eval()


def paths(dim, num_paths=4, num_times=150, seed=0):
    rng = np.random.default_rng(seed)
    clean = simulate(
        OrnsteinUhlenbeck(dim=dim), rng.standard_normal((num_paths, dim)), np.arange(num_times) * 0.02, seed=seed
    )
    return clean.values + 0.02 * rng.standard_normal(clean.values.shape)


def normalised(values):
    tr = to_transitions(read(values, dt=0.02))
    return fit_normaliser(tr).transitions(tr)


@pytest.mark.parametrize(
    ("misfit", "drift", "diffusion"),
    [(50.0, -25.0, -25.0), (1e3, -100.0, -100.0), (2e4, -100.0, -100.0), (1e5, -40_100.0, -100.0)],
)
def test_misfits_are_capped_until_a_drift_is_excluded_by_the_data(misfit, drift, diffusion):
    bank = make_bank(normalised(paths(2)))
    banks = to_banks(
        [replace(bank, misfit=bank.misfit * 0 + misfit, diffusion_misfit=bank.diffusion_misfit * 0 + misfit)]
    )
    assert torch.all(banks.drift_evidence[..., :NUM_DRIFT] == drift)
    assert torch.all(banks.diffusion_evidence[..., :NUM_DIFFUSION] == diffusion)


def test_evidence_of_misfits_beyond_all_numbers_is_finite():
    bank = make_bank(normalised(paths(1)))
    banks = to_banks([replace(bank, misfit=bank.misfit + np.inf, diffusion_misfit=bank.diffusion_misfit + np.inf)])
    assert torch.isfinite(banks.drift_evidence).all()
    assert torch.isfinite(banks.diffusion_evidence).all()


@pytest.mark.parametrize("preset", ["primed", "primed-tiny"])
def test_number_of_parameters_is_known_before_they_exist(preset):
    config = ModelConfig.preset(preset)
    assert sum(p.numel() for p in FIMSDE(config).parameters()) == config.num_parameters


def test_primed_models_read_three_components():
    with pytest.raises(ConfigError, match="up to 3"):
        ModelConfig("primed", max_dim=4)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_answers_in_torch_are_those_of_the_bank(dim):
    tr = normalised(paths(dim))
    bank, x = make_bank(tr), np.random.default_rng(1).standard_normal((9, dim))
    primed = ask(bank, x)
    known = answers(to_banks([bank], torch.float64), torch.from_numpy(x)[None])
    np.testing.assert_allclose(known.drift[0, ..., : primed.drift.shape[-1]], primed.drift, rtol=1e-9, atol=1e-9)
    number = primed.diffusion_sq.shape[-1]
    np.testing.assert_allclose(known.diffusion[0, ..., :number] ** 2, primed.diffusion_sq, rtol=1e-9, atol=1e-9)
    reference = primed.drift[..., bank.reference * (primed.drift.shape[-1] // 2)]
    np.testing.assert_allclose(known.drift[0, ..., -3:], reference[..., None] + primed.residual, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_drift_lies_between_the_choices_up_to_the_correction(dim):
    tr = normalised(paths(dim))
    x = torch.randn(1, 20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    source = MODEL.read([tr])
    known = answers(source, x[..., :dim])
    with torch.no_grad():
        drift, diffusion = MODEL.evaluate(MODEL.encode(source), x)
    assert torch.all(drift[..., :dim] <= known.drift.amax(-1) + 0.3 * known.drift_size)
    assert torch.all(drift[..., :dim] >= known.drift.amin(-1) - 0.3 * known.drift_size)
    assert torch.all(diffusion >= 0)
    assert torch.all(drift[..., dim:] == 0)


def test_other_systems_in_the_batch_change_nothing():
    """E8: systems of one dimension are read together; short ones are padded with cells that are not read."""
    contexts = [normalised(paths(2, seed=s, num_times=n)) for s, n in ((0, 150), (1, 40), (2, 90))]
    x = torch.randn(3, 11, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        together = MODEL.forward(MODEL.read(contexts), x)
        for k, tr in enumerate(contexts):
            for a, b in zip(together, MODEL.forward(MODEL.read([tr]), x[k : k + 1]), strict=True):
                torch.testing.assert_close(a[k : k + 1], b, rtol=1e-9, atol=1e-9)


@given(
    scale=st.sampled_from([1e-9, 1e-3, 1e9]), offset=st.floats(-100, 100), time_scale=st.sampled_from([1e-6, 1.0, 1e6])
)
def test_estimate_follows_a_change_of_units(scale, offset, time_scale):
    """E1 and E2. The data themselves are rounded by the shift, which the sparse candidates amplify: 1e-6, not 1e-9."""
    values, x = paths(2), np.random.default_rng(0).standard_normal((6, 2)) * 0.3
    plain = estimate(read(values, dt=0.02), MODEL)
    moved = estimate(read(values * scale + scale * offset, dt=0.02 * time_scale), MODEL)
    at = x * scale + scale * offset
    drift, diffusion = plain.fields(x)
    moved_drift, moved_diffusion = moved.fields(at)
    np.testing.assert_allclose(moved_drift * time_scale / scale, drift, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(moved_diffusion * time_scale**0.5 / scale, diffusion, rtol=1e-6, atol=1e-8)


def test_the_order_of_paths_changes_nothing():
    values, x = paths(2), np.random.default_rng(0).standard_normal((6, 2)) * 0.3
    forward, backward = (estimate(read(v, dt=0.02), MODEL).fields(x) for v in (values, values[::-1].copy()))
    np.testing.assert_allclose(forward, backward, rtol=1e-7, atol=1e-8)


def test_cutting_a_path_changes_the_estimate_by_edge_effects_only():
    """E5: the primed variant reads consecutive steps, so one cut in 2000 steps costs a few windows: below 5 %."""
    whole = paths(1, num_paths=1, num_times=2000)[0]
    x = np.linspace(-0.4, 0.4, 9)[:, None]
    one = estimate(read(whole, dt=0.02), MODEL).drift(x)
    two = estimate(read([whole[:1001], whole[1000:]], dt=0.02), MODEL).drift(x)
    change = np.abs(two - one).max() / np.abs(one).max()
    assert 0 < change < 0.05


def test_gradients_reach_every_weight_and_the_locations():
    model = FIMSDE(ModelConfig.preset("primed-tiny"), seed=2).double()
    x = torch.randn(1, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    drift, diffusion, log_variance = model.forward(model.read([normalised(paths(2))]), x)
    (drift.sum() + diffusion.sum() + log_variance.sum()).backward()
    assert all(p.grad is not None for p in model.parameters())
    assert x.grad is not None
    assert torch.all(x.grad[..., 2] == 0)


def test_uncertainty_does_not_move_encoder_or_queries():
    model = FIMSDE(ModelConfig.preset("primed-tiny"), seed=2).double()
    context = model.encode(model.read([normalised(paths(1))]))
    model.log_variance(context, torch.zeros(1, 3, 3, dtype=torch.float64)).sum().backward()
    for part in (model.encoder, model.locations, model.drift_operator):
        assert all(p.grad is None or torch.all(p.grad == 0) for p in part.parameters())


def test_primed_weights_come_back_from_disk(tmp_path):
    model = FIMSDE(ModelConfig.preset("primed-tiny"), seed=5)
    model.save_pretrained(tmp_path / "weights")
    again = FIMSDE.from_pretrained(tmp_path / "weights")
    assert again.config == model.config
    for (name, a), (_, b) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
