"""Tables of the page on scaling, from learning curves and from weights that were measured on the canonical tasks."""

from collections.abc import Callable, Sequence

from fimsde.benchmark.published import find
from fimsde.benchmark.scaling import tables as arms_tables
from fimsde.benchmark.scaling.arms import Arm, all_arms
from fimsde.benchmark.scaling.cost import A100_PEAK, PUBLISHED_SECONDS, published_operations, step_operations
from fimsde.benchmark.scaling.curves import read_curves
from fimsde.benchmark.summary import Cell
from fimsde.benchmark.tables import ResultTable
from fimsde.train.config import TrainConfig
from pages.formats import listed, markdown, spaced, two_digits
from pages.stored import SETTINGS, SYSTEMS, Stored, geometric_mean

NOTHING = "Nothing is stored yet."
Maker = Callable[[Sequence[Arm], arms_tables.Curves], ResultTable | None]


def of_arms(make: Maker) -> Callable[[Stored], str]:
    """A table of learning curves; a sentence if no arm has got there."""

    def table(stored: Stored) -> str:
        found = make(all_arms(), read_curves(stored.folder, all_arms()))
        if found is None:
            return NOTHING
        return f"{found.head}.\n\n" + markdown(list(found.columns), [list(row) for row in found.rows])

    return table


def canonical(stored: Stored) -> str:
    """Errors on the canonical tasks divided by the published FIM-SDE's, geometric means over the systems."""
    cells = {(c.method, c.measure, c.setting, c.system): c for c in stored.cells("ablation")}
    titles = {cell.method: cell.title for cell in cells.values()}
    rows = []
    for method, title in titles.items():
        for measure in ("drift_mse", "diffusion_mse"):
            ratios = [_ratio(cells, method, measure, setting) for setting in SETTINGS.values()]
            rows.append([f"{title}, {measure.removesuffix('_mse')}", *ratios])
    return markdown(["", *(name.replace("/", " / ") for name in SETTINGS)], rows) if rows else NOTHING


def _ratio(cells: dict[tuple[str, ...], Cell], method: str, measure: str, setting: str) -> str:
    found = []
    for system in SYSTEMS:
        cell = cells.get((method, measure, setting, system))
        published = find("canonical", system, setting, "", measure, "fim")
        if cell is None or cell.mean is None or published is None or published.mean is None:
            return ""
        found.append(cell.mean / published.mean)
    return two_digits(geometric_mean(found))


def cost(stored: Stored) -> str:
    """Operations of the published run and of the smaller presets."""
    rows = []
    for name in ("paper", "paper-1.6m", "paper-0.4m", "paper-0.1m"):
        config = TrainConfig.preset(name)
        each = step_operations(config)
        total = each * config.loop.steps
        rows.append(
            [
                *(f"`{name}`", spaced(config.model.num_parameters), _scientific(each), spaced(config.loop.steps)),
                *(_scientific(total), _seconds(total / A100_PEAK)),
            ]
        )
    heads = ["preset", "weights", "operations per step", "steps", "operations", "seconds of an A100 at its peak"]
    return markdown(heads, rows)


def utilisation(stored: Stored) -> str:
    """Share of the peak that the published run reached, in percent."""
    return f"{100 * published_operations() / (A100_PEAK * PUBLISHED_SECONDS):.1f}"


def core_years(stored: Stored) -> str:
    """Core-years of the published run at the speed measured here with the largest preset."""
    row = stored.script("training_speed")["rows"][-1]
    return f"{published_operations() / (row['operations'] / row['compiled']) / (365.25 * 86_400):.0f}"


def speed(stored: Stored) -> str:
    """CPU-seconds of a step."""
    rows = [
        [
            *(f"`{row['preset']}`", f"{row['making']:.3f}", f"{row['torch']:.2f}", f"{row['compiled']:.2f}"),
            *(f"{row['torch'] / row['compiled']:.2f}", f"{row['operations'] / row['compiled'] / 1e9:.0f}"),
        ]
        for row in stored.script("training_speed")["rows"]
    ]
    return markdown(["preset", "making the batch", "torch's dropout", "as it is", "ratio", "10⁹ operations/s"], rows)


def zero(stored: Stored) -> str:
    """The typical loss of an answer of zero."""
    rows = [[f"U knows {name}", f"{loss:.1f}"] for name, loss in stored.script("zero_answer")["rows"].items()]
    return markdown(["drift and diffusion answered with zero", "typical loss"], rows)


def spread(stored: Stored) -> str:
    """Sizes of normalised fields at locations: 5 %, median and 95 %."""
    return listed([two_digits(size) for size in stored.script("zero_answer")["spread"]])


def _seconds(number: float) -> str:
    return spaced(int(round(number, -2))) if number >= 1000 else two_digits(number)


def _scientific(number: float) -> str:
    mantissa, exponent = f"{number:.1e}".split("e")
    digits = str(int(exponent)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa}·10{digits}"


TABLES = {
    "scaling-arms": of_arms(arms_tables.progress),
    "scaling-sizes": of_arms(arms_tables.sizes_and_data),
    "scaling-differences": of_arms(arms_tables.steps_between),
    "scaling-degrees": of_arms(arms_tables.degrees),
    "scaling-compute": of_arms(arms_tables.equal_compute),
    "scaling-laws": of_arms(arms_tables.power_laws),
    "scaling-canonical": canonical,
    "scaling-cost": cost,
    "scaling-zero": zero,
    "training-speed": speed,
}
NUMBERS = {"field-sizes": spread, "published-utilisation": utilisation, "published-core-years": core_years}
