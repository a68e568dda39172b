"""What a data set is made of: acceptance of proposed equations, with intervals."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from fimsde.prior.manifest import Manifest


@dataclass(frozen=True)
class Acceptance:
    """How many proposed equations of one dimension and gap were accepted."""

    dim: int
    gap: float
    proposals: int
    accepted: int

    @property
    def rate(self) -> float:
        """Share of proposals that were accepted."""
        return self.accepted / self.proposals

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Binomial confidence interval of the rate (Clopper and Pearson)."""
        tail = (1 - confidence) / 2
        rejected = self.proposals - self.accepted
        low = beta.ppf(tail, self.accepted, rejected + 1) if self.accepted else 0.0
        high = beta.isf(tail, self.accepted + 1, rejected) if rejected else 1.0
        return float(low), float(high)


def acceptance(manifest: Manifest) -> list[Acceptance]:
    """Acceptance per dimension and setting, where any equation was wanted."""
    config = manifest.settings.config
    accepted = np.sum([shard.accepted for shard in manifest.shards], axis=0)  # (dims, settings)
    proposals = np.sum([shard.proposals for shard in manifest.shards], axis=0)
    return [
        Acceptance(dim, setting.gap, int(proposals[i, j]), int(accepted[i, j]))
        for i, dim in enumerate(config.dims)
        for j, setting in enumerate(config.settings)
        if proposals[i, j]
    ]


def acceptance_table(rows: list[Acceptance]) -> str:
    """The acceptance rates as text."""
    lines = ["dim     gap  proposals  accepted  acceptance  95 % interval"]
    for row in rows:
        low, high = row.interval()
        counts = f"{row.dim:>3}  {row.gap:>6g}  {row.proposals:>9}  {row.accepted:>8}"
        lines.append(f"{counts}  {row.rate:>10.4f}  {low:.4f} to {high:.4f}")
    return "\n".join(lines)
