"""Sampling the LatentSDE prior with the stochastic Runge-Kutta solver of torchsde (optional), as the paper did."""

import torch
from jaxtyping import Float
from torch import Tensor

from fimsde.baselines.latent_modules import LatentNetworks
from fimsde.errors import FimsdeError
from fimsde.shapes import Array, Float64


class PriorForTorchsde:
    """The prior equation under the names torchsde looks for."""

    noise_type, sde_type = "diagonal", "ito"

    def __init__(self, networks: LatentNetworks) -> None:
        self.networks = networks

    def f(self, t: Tensor, z: Float[Tensor, "paths latent"]) -> Float[Tensor, "paths latent"]:
        return self.networks.prior_drift(z)

    def g(self, t: Tensor, z: Float[Tensor, "paths latent"]) -> Float[Tensor, "paths latent"]:
        return self.networks.diffusion(z)


def srk_states(
    networks: LatentNetworks,
    start: Float[Tensor, "paths latent"],
    times: Float64[Array, " times"],
    dt: float,
    seed: int,
) -> Float[Tensor, "times paths latent"]:
    """The prior from `start`, in steps of `dt` with a linear interpolation to `times`."""
    try:
        import torchsde
    except ImportError as error:
        raise FimsdeError(
            "sample_solver 'srk' needs torchsde: pip install 'fimsde[baselines]', or sample with 'euler'."
        ) from error
    ts = torch.tensor(times, dtype=start.dtype, device=start.device)
    brownian = torchsde.BrownianInterval(
        t0=ts[0], t1=ts[-1], size=start.shape, dtype=start.dtype, device=start.device, entropy=seed,
        levy_area_approximation="space-time",
    )  # fmt: skip
    return torchsde.sdeint(PriorForTorchsde(networks), start, ts, bm=brownian, method="srk", dt=dt)
