"""The correction of finetuned models: nothing at first, orthonormal over the data, constant beyond them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fimsde.data.transitions import Transitions
from fimsde.errors import ConfigError
from fimsde.model.config import ModelConfig
from fimsde.model.correction import Correction
from fimsde.model.fim import FIMSDE

CONFIG = ModelConfig(embed=8, heads=2, encoder_layers=1, functional_layers=1, feed_forward=8, head_hidden=(8,))


@pytest.fixture
def states():
    rng = np.random.default_rng(0)
    plane = rng.standard_normal((500, 2)) @ np.array([[1.0, 0.6], [0.0, 0.4]])
    return np.pad(plane, ((0, 0), (0, 1)))


@pytest.fixture
def correction(states):
    correction = Correction(3).double()
    correction.fit(states, np.array([2.0, 3.0, 0.0]))
    return correction


def test_it_begins_as_nothing(correction):
    x, fields = torch.randn(2, 1, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(correction.drift(fields, x), fields)
    assert torch.equal(correction.diffusion(fields, x), fields)


def test_its_polynomials_are_orthonormal_over_the_data(correction, states):
    """Nine of the ten of a plane and the constant; those with the third component, which is always zero, vanish."""
    values = correction.drift_features(torch.from_numpy(states)[None])[0]
    gram = values.mT @ values / len(values)
    real = torch.diagonal(gram) > 0.5
    assert int(real.sum()) == 10
    torch.testing.assert_close(gram[real][:, real], torch.eye(10, dtype=gram.dtype), rtol=0, atol=2e-2)
    assert not gram[~real].any()


def test_any_cubic_can_be_reached_and_beyond_the_data_it_is_continued_as_a_constant(correction, states):
    x = torch.from_numpy(states)[None]
    cubic = 1 + x[..., 0] - 0.5 * x[..., 0] * x[..., 1] + 0.2 * x[..., 1] ** 3
    features = correction.drift_features(x)[0]
    coefficients = torch.linalg.lstsq(features, cubic[0] / 2.0, driver="gelsd").solution
    with torch.no_grad():
        correction.add_drift(coefficients[:, None])
        torch.testing.assert_close(correction.drift(torch.zeros_like(x), x)[..., 0], cubic, rtol=1e-6, atol=1e-6)
        far = torch.tensor([[[50.0, 0.0, 0.0], [500.0, 0.0, 0.0]]], dtype=torch.float64)
        moved = correction.drift(torch.zeros_like(far), far)[0, :, 0]
    assert float(moved[0]) == float(moved[1])


def test_a_factor_on_the_diffusion_is_exact_and_bounded(correction):
    x = torch.randn(1, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ones = torch.ones_like(x)
    correction.scale_diffusion(torch.log(torch.tensor([3.0, 0.2], dtype=torch.float64)))
    with torch.no_grad():
        found = correction.diffusion(ones, x)
        expected = torch.tensor([3.0, 0.2, 1.0], dtype=torch.float64).expand_as(x)
        torch.testing.assert_close(found, expected)
        correction.diffusion_coefficients.fill_(1e6)
        assert correction.diffusion(ones, x).max() <= np.exp(8.0) + 1e-6


def test_a_constant_is_added_where_there_is_no_diffusion(correction):
    x = torch.zeros(1, 2, 3, dtype=torch.float64)
    correction.add_diffusion(torch.tensor([0.5, 2.0], dtype=torch.float64))
    with torch.no_grad():
        found = correction.diffusion(torch.zeros_like(x), x)
        torch.testing.assert_close(found, torch.tensor([0.5, 2.0, 0.0], dtype=torch.float64).expand_as(x))
        correction.scale_diffusion(torch.log(torch.tensor([3.0, 3.0], dtype=torch.float64)))
        torch.testing.assert_close(correction.diffusion(torch.zeros_like(x), x), 3 * found)


def test_the_factor_on_the_diffusion_is_bounded_far_away_and_free_where_the_data_are(correction, states):
    x = torch.from_numpy(states)[None]
    features = correction.diffusion_features(x)[0]
    assert features.shape[1] == 10  # of degree 2 in three components
    gram = (features.mT @ features / len(features))[:6, :6]
    torch.testing.assert_close(torch.diagonal(gram)[0], torch.ones((), dtype=gram.dtype), rtol=0, atol=1e-3)
    correction.shape_diffusion(torch.linalg.lstsq(features, x[0, :, :1], driver="gelsd").solution)
    far = torch.tensor([[[2.0, 0.0, 0.0], [50.0, 0.0, 0.0]]], dtype=torch.float64)
    with torch.no_grad():
        near, away = correction.diffusion(torch.ones_like(far), far)[0, :, 0]
    assert 3 < near < away < 40  # about exp(2) and exp(3)


def test_a_model_with_a_correction_is_saved_counted_and_told_apart(tmp_path, states):
    config = replace(CONFIG, correction=True)
    model = FIMSDE(config, seed=0).eval()
    plain = FIMSDE(CONFIG, seed=0).eval()
    assert sum(p.numel() for p in model.parameters()) == config.num_parameters == CONFIG.num_parameters + 90
    model.correction.fit(states, np.array([1.0, 1.0, 0.0]))
    tr = Transitions(states[:50, :2], states[1:51, :2] - states[:50, :2], np.full(50, 0.01), np.zeros(50, int))
    x = torch.from_numpy(states[None, :5]).float()
    with torch.no_grad():
        torch.nn.init.constant_(model.correction.drift_coefficients, 0.01)
        torch.nn.init.constant_(model.correction.diffusion_coefficients, 0.01)
        model.save_pretrained(tmp_path / "weights")
        loaded = FIMSDE.from_pretrained(tmp_path / "weights")
        both = [m.evaluate(m.encode(m.read([tr])), x) for m in (model, loaded, plain)]
        alone = loaded.drift(loaded.encode(loaded.read([tr])), x), loaded.diffusion(loaded.encode(loaded.read([tr])), x)
    for kind in range(2):
        assert torch.equal(both[0][kind], both[1][kind])
        assert torch.equal(both[0][kind], alone[kind])
        assert not torch.allclose(both[0][kind], both[2][kind])
    with pytest.raises(ConfigError, match="correction is 'yes'; expected true or false"):
        ModelConfig.from_mapping({"correction": "yes"})
