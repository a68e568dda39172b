"""Tables of discrepancies of paths: Lorenz, real series, sizes of the context; and systems that no cubic describes."""

from collections.abc import Callable
from functools import partial

from out_of_class_ratios import log_ratios, mean_ratio

from fimsde.benchmark.published import Published
from fimsde.benchmark.summary import Cell
from fimsde.benchmark.tasks import CONTEXT_SIZES
from pages.formats import markdown, spaced, two_digits
from pages.stored import Stored

FOUR = ("ours", "ours-finetuned", "paper:fim", "paper:fim-finetuned")
FOUR_TITLES = ("bundled, zero-shot", "bundled, finetuned", "published zero-shot", "published finetuned")
SERIES = ("wind", "oil", "facebook", "tesla")


def lorenz(stored: Stored, method: str, law: str) -> Cell | Published:
    """The discrepancy on Lorenz from one initial law."""
    return stored.cell("lorenz", "lorenz", "", law, "mmd", method)


def series(stored: Stored, method: str, name: str, steps: str = "one step") -> Cell | Published:
    """The discrepancy on a real series."""
    return stored.cell("real-world", name, "", steps, "mmd", method)


def mean_std(cell: Cell | Published) -> str:
    """0.120 ± 0.091, and how many runs failed."""
    failed = f" ({cell.failures} failed)" if cell.failures else ""
    return f"{cell.mean:.3f} ± {cell.std:.3f}{failed}"


def short(stored: Stored) -> str:
    """Lorenz and the real series, as README.md has them."""
    titles = {"wind": "wind speed", "oil": "oil price", "facebook": "Facebook stock", "tesla": "Tesla stock"}
    rows = [
        [f"Lorenz from {law}", *(f"{lorenz(stored, method, law).mean:.3f}" for method in FOUR)]
        for law in ("N(0,1)", "N(0,2)", "(1,1,1)")
    ]
    rows += [[title, *(mean_std(series(stored, method, name)) for method in FOUR)] for name, title in titles.items()]
    return markdown(["", *FOUR_TITLES], rows)


def lorenz_table(stored: Stored) -> str:
    """Lorenz, with LatentSDE."""
    methods = (*FOUR, "paper:latentsde")
    rows = [
        [law, *(f"{lorenz(stored, method, law).mean:.4f}" for method in methods)]
        for law in ("N(0,1)", "(1,1,1)", "N(0,2)")
    ]
    return markdown(["initial law", *FOUR_TITLES, "LatentSDE (published)"], rows)


def _series_table(*rows: tuple[str, str, str], heads: tuple[str, ...]) -> Callable[[Stored], str]:
    def table(stored: Stored) -> str:
        cells = [[title, *(mean_std(series(stored, m, name, steps)) for name in SERIES)] for title, m, steps in rows]
        return markdown(["", *heads], cells)

    return table


finetuned_series = _series_table(
    ("finetuned, one step", "ours-finetuned", "one step"),
    ("finetuned, five steps", "ours-finetuned", "five steps"),
    ("zero-shot, one step", "ours", "one step"),
    ("zero-shot, five steps", "ours", "five steps"),
    ("BISDE, our runs, one step", "bisde", "one step"),
    ("published finetuned", "paper:fim-finetuned", ""),
    ("published zero-shot", "paper:fim", ""),
    ("BISDE (published)", "paper:bisde", ""),
    heads=("wind", "oil", "Facebook", "Tesla"),
)
baseline_series = _series_table(
    ("BISDE, one step per observation", "bisde", "one step"),
    ("BISDE, five steps", "bisde", "five steps"),
    ("BISDE, published", "paper:bisde", ""),
    ("Kramers-Moyal, one step", "kramers-moyal", "one step"),
    ("SparseGP, one step", "sparsegp", "one step"),
    heads=("Wind", "Oil", "Facebook", "Tesla"),
)


def context(stored: Stored, method: str, system: str, size: int) -> Cell | Published:
    """The discrepancy with so many observations."""
    return stored.cell("context-size", system, f"length={size}", "", "mmd", method)


def context_sizes(stored: Stored) -> str:
    """Means by the number of observations; those worse than published are bold."""
    rows = []
    for system, title in (("double_well", "double well"), ("damped_linear", "damped linear")):
        own, paper = (
            [f"{context(stored, method, system, size).mean:.3f}" for size in CONTEXT_SIZES]
            for method in ("ours", "paper:fim")
        )
        rows += [
            [
                f"{title}, bundled",
                *(f"**{a}**" if float(a) > float(b) else a for a, b in zip(own, paper, strict=True)),
            ],
            [f"{title}, published", *paper],
        ]
    return markdown(["observations", *map(spaced, CONTEXT_SIZES)], rows)


OUT_OF_CLASS = {  # setting: as the page has it
    "rho=0,length=full": "0, all",
    "rho=0,length=1000": "0, 1000",
    "rho=0,length=300": "0, 300",
    "rho=0.05,length=full": "0.05, all",
    "rho=0.05,length=1000": "0.05, 1000",
    "rho=0.05,length=300": "0.05, 300",
}


def out_of_class(stored: Stored, ours: str) -> str:
    """Errors where the data are, ours divided by another's."""
    found = {m: log_ratios(stored.results("out-of-class"), m, ours) for m in ("kramers-moyal", "sfi-linear")}
    columns = [(field, method) for field in ("drift", "diffusion") for method in found]
    rows = [
        [title, *(two_digits(mean_ratio(found[method][field, setting])) for field, method in columns)]
        for setting, title in OUT_OF_CLASS.items()
    ]
    heads = ["drift, ÷ cubic Kramers-Moyal", "drift, ÷ SFI", "diffusion, ÷ Kramers-Moyal", "diffusion, ÷ SFI"]
    return markdown(["noise, observations", *heads], rows)


TABLES = {
    "paths-short": short,
    "lorenz-finetuned": lorenz_table,
    "real-world-finetuned": finetuned_series,
    "real-world-baselines": baseline_series,
    "context-size": context_sizes,
    "out-of-class-ratios": partial(out_of_class, ours="ours"),
    "out-of-class-default": partial(out_of_class, ours="evidence"),
}
