"""The prior beside the authors' generator: structure of the polynomials, acceptance, and what accepted paths look like.

Run: python benchmarks/prior_statistics.py [--store]

The authors' figures are measurements of their public code: 20 000 polynomial draws per dimension, and 300 to 5000
proposed equations per cell. Intervals are 95 % (Clopper and Pearson); p is Fisher's exact test of equal acceptance.
"""

import argparse

import numpy as np
from record import store
from scipy.stats import fisher_exact

from fimsde.prior.config import PolynomialConfig, PriorConfig
from fimsde.prior.noise_kernels import derive
from fimsde.prior.paths import CleanPaths, draw_clean_paths
from fimsde.prior.polynomials import draw_polynomials, monomials
from fimsde.prior.stats import Acceptance

# (dimension, part): mean number of monomials per component, probability of each degree 0, 1, 2, (3) to be present
STRUCTURE = {
    (1, "drift"): (2.5104, (0.6259, 0.6273, 0.6292, 0.6281)),
    (1, "diffusion"): (1.9975, (0.6674, 0.6636, 0.6665)),
    (2, "drift"): (4.3678, (0.6256, 0.6249, 0.6255, 0.6259)),
    (2, "diffusion"): (3.0015, (0.6658, 0.6675, 0.6648)),
    (3, "drift"): (7.5068, (0.6284, 0.6237, 0.6255, 0.6273)),
    (3, "diffusion"): (4.3360, (0.6665, 0.6638, 0.6691)),
}
# (dimension, gap): proposed, accepted, share of zero diffusion at observations
ACCEPTED = {
    (1, 0.1): (600, 271, 0.573),
    (1, 0.01): (2400, 1137, 0.556),
    (1, 0.001): (5000, 3008, 0.527),
    (2, 0.1): (300, 38, 0.468),
    (2, 0.01): (1200, 234, 0.535),
    (2, 0.001): (2500, 950, 0.537),
    (3, 0.1): (840, 15, 0.547),
    (3, 0.01): (1440, 67, 0.560),
    (3, 0.001): (3000, 458, 0.531),
}
PAPER_REJECTED = {1: 0.50, 2: 0.78, 3: 0.92}


def print_structure(num_draws: int) -> list[dict]:
    """Print the structure before rejection; the same as rows."""
    rows = []
    print(f"structure before rejection, {num_draws} draws: ours (authors)")
    print("dim       part  monomials per component   probability of degree 0, 1, ...")
    for (dim, part), (their_mean, their_degrees) in STRUCTURE.items():
        draws = draw_polynomials(PolynomialConfig(), dim, num_draws, seed=0)[part == "diffusion"]
        present = draws.reshape(num_draws * dim, -1) != 0
        lengths = np.array([len(monomial) for monomial in monomials(dim, len(their_degrees) - 1)])
        degrees = [present[:, lengths == k].any(axis=1).mean() for k in range(len(their_degrees))]
        text = "  ".join(f"{ours:.4f} ({theirs:.4f})" for ours, theirs in zip(degrees, their_degrees, strict=True))
        mean = float(present.sum(axis=1).mean())
        print(f"{dim:>3}  {part:>9}  {mean:>9.4f} ({their_mean:.4f})        {text}")
        pairs = [[float(ours), theirs] for ours, theirs in zip(degrees, their_degrees, strict=True)]
        rows.append({"dim": dim, "part": part, "monomials": [mean, their_mean], "degrees": pairs})
    return rows


def zero_share(clean: CleanPaths) -> float:
    """Share of (component, observation) pairs at which the diffusion is exactly zero."""
    return float(np.mean(clean.sde.diffusion(clean.values.reshape(-1, clean.sde.dim)) == 0))


def print_acceptance(num_equations: int, cells: list[tuple[int, float]]) -> list[dict]:
    """Print acceptance and the share of zero diffusion; the same as rows."""
    rows = []
    print(f"\nacceptance and paths, {num_equations} accepted equations per cell: ours (authors)")
    print("dim     gap  proposals  acceptance          95 % interval    (authors' interval)     p     zero diffusion")
    rates: dict[int, list[float]] = {1: [], 2: [], 3: []}
    for dim, gap in cells:
        their_proposals, their_accepted, their_zero = ACCEPTED[dim, gap]
        setting = PriorConfig().restrict(gaps=[gap]).settings[0]
        keys = (np.uint64(derive(np.uint64(0), number)) for number in range(num_equations))
        clean = [
            (c.num_proposals, zero_share(c)) for c in (draw_clean_paths(PriorConfig(), dim, setting, k) for k in keys)
        ]
        ours = Acceptance(dim, gap, sum(number for number, _ in clean), num_equations)
        theirs = Acceptance(dim, gap, their_proposals, their_accepted)
        table = [[row.accepted, row.proposals - row.accepted] for row in (ours, theirs)]
        (low, high), (their_low, their_high) = ours.interval(), theirs.interval()
        rates[dim].append(ours.rate)
        print(
            f"{dim:>3}  {gap:>6g}  {ours.proposals:>9}  {ours.rate:.4f} ({theirs.rate:.4f})  {low:.4f} to {high:.4f}  "
            f"({their_low:.4f} to {their_high:.4f})  {fisher_exact(table).pvalue:.2f}  "
            f"{np.mean([zero for _, zero in clean]):.3f} ({their_zero:.3f})",
            flush=True,
        )
        rows.append(
            {
                "dim": dim,
                "gap": gap,
                "proposed": ours.proposals,
                "accepted": [ours.rate, low, high],
                "authors": [theirs.rate, their_low, their_high],
                "p": float(fisher_exact(table).pvalue),
                "zero": float(np.mean([zero for _, zero in clean])),
                "authors_zero": their_zero,
                "authors_accepted": their_accepted,
            }
        )
    for dim, paper in PAPER_REJECTED.items():
        if len(rates[dim]) == 3:
            rejected = 1 - np.mean(rates[dim])
            print(f"rejected in {dim} dimensions, mean of the three gaps: {rejected:.3f} (paper {paper:.2f})")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20_000, help="polynomial draws per dimension")
    parser.add_argument("--equations", type=int, default=2000, help="accepted equations per cell")
    parser.add_argument("--only", nargs=2, type=float, metavar=("DIM", "GAP"), help="acceptance of this cell only")
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    options = parser.parse_args()
    if options.store and options.only is not None:
        parser.error("--store keeps all cells; leave out --only.")
    structure = print_structure(options.draws) if options.only is None else []
    cells = list(ACCEPTED) if options.only is None else [(int(options.only[0]), options.only[1])]
    acceptance = print_acceptance(options.equations, cells)
    if options.store:
        store("prior_statistics", {"structure": structure, "acceptance": acceptance})


if __name__ == "__main__":
    main()
