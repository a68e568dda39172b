"""The sections of a report: the answer, figures, then details."""

from collections.abc import Callable

from fimsde import plots
from fimsde._version import __version__
from fimsde.analysis.agreement import Agreement
from fimsde.analysis.band import band_size
from fimsde.analysis.check import Verdict
from fimsde.analysis.draws import NUM_DRAWS
from fimsde.analysis.equation import Equation
from fimsde.analysis.remarks import little_drift, open_terms
from fimsde.data.summary import in_words, paths
from fimsde.equations.sde import SDE
from fimsde.errors import FimsdeError
from fimsde.files.identities import data_hash
from fimsde.files.versions import versions
from fimsde.plots import BandSettings, Picture
from fimsde.plots.bands import has_band, is_bootstrapped
from fimsde.plots.narrow import to_pictures
from fimsde.plots.style import WIDTH, split_unit
from fimsde.report.answer import answer_of
from fimsde.report.blocks import Block, Code, Image, Note, Paragraph, Section, properties, table
from fimsde.report.classes import classes
from fimsde.report.findings import Findings, weights_hash
from fimsde.report.formulas import columns, formula_block, left_out_text, terms
from fimsde.report.points import fixed_points
from fimsde.report.weekends import resting
from fimsde.results.result import Result

_DIGITS = 4  # of numbers in tables; by hand: readable
_CITATION = """\
Seifner, P., Cvejoski, K., Berghaus, D., Ojeda, C., Sánchez, R. J. (2025). In-Context Learning of Stochastic \
Differential Equations with Foundation Inference Models. Advances in Neural Information Processing Systems (NeurIPS).

The fimsde developers. fimsde: stochastic differential equations from time series. Version {version}."""


def data(found: Findings) -> Section:
    """Data summary and health."""
    observations, numbers = found.observations, found.health
    unit = in_words(observations.time_unit)
    low, middle, high = (f"{g:.{_DIGITS}g}" for g in numbers.gaps)
    gap = f"{middle} {unit}" if low == high else f"{middle} {unit} in the median, from {low} to {high}"
    summary = properties(
        ("observations", f"{observations.num_points} in {paths(observations)}"),
        ("transitions", str(observations.num_transitions)),
        ("components", ", ".join(observations.names)),
        ("time between observations", gap),
        ("time covered", f"{numbers.span:.{_DIGITS}g} {unit}"),
    )
    rows = [
        (name, *(f"{q:.{_DIGITS}g}" for q in numbers.quantiles[:, j]), f"{numbers.deviations[j]:.{_DIGITS}g}")
        for j, name in enumerate(observations.names)
    ]
    head = ("component", "smallest", "5 %", "median", "95 %", "largest", "std")
    remarks = [Note("caution", remark) for remark in (*numbers.remarks, resting(observations)) if remark]
    quiet = [Note("good", "Nothing about the data themselves calls for caution.")]
    return Section("data", "Data", (summary, table(head, rows), *(remarks or quiet)))


def fields(result: Result, bands: BandSettings, truth: SDE | None = None) -> Section:
    """Drift and diffusion with bands."""
    noise = "diag(√g(x))" if result.is_diagonal else "S(x)"
    blocks: list[Block] = [
        Paragraph(
            f"The equation is dx = f(x) dt + {noise} dW in the sense of Ito, in the units of the data. The drift f "
            "is the mean rate of change; the diffusion √g is the root of the variance rate. Grey is where no data are "
            "nearby: there, values are extrapolated."
            + ("" if result.is_diagonal else " The noise of different components is correlated.")
        )
    ]
    if is_bootstrapped(result) and bands.resamples:
        blocks.append(_about_bootstrap(result, bands))
    elif has_band(result) and bands.resamples:
        blocks.append(
            Paragraph(
                f"Bands are pointwise {bands.level:.0%} intervals: quantiles of {NUM_DRAWS} equations drawn from the "
                "posterior, that is of what the data leave possible under all hypotheses."
            )
        )
    elif has_band(result):
        blocks.append(Paragraph("Bands were not asked for."))
    else:
        blocks.append(Note("caution", "This equation was not fitted to the data, so there are no bands."))
    blocks += _figures(("drift and diffusion", lambda: plots.plot(result, "fields", bands=bands, truth=truth)))
    if result.dim > 1:
        blocks += _figures(
            ("drift along each axis", lambda: plots.plot(result, "drift", bands=bands, truth=truth)),
            ("diffusion along each axis", lambda: plots.plot(result, "diffusion", bands=bands, truth=truth)),
        )
    return Section("fields", "Drift and diffusion", tuple(blocks))


def _about_bootstrap(result: Result, bands: BandSettings) -> Paragraph:
    skipped = sum(drawn is None for drawn in result.resampled(bands.resamples, bands.seed, for_band=True))
    return Paragraph(
        f"Bands are pointwise {bands.level:.0%} intervals by bootstrap: the data were resampled {bands.resamples} "
        "times, in blocks or by paths, and estimated again each time."
        + _smaller(result)
        + (f" {skipped} of the resamples could not be estimated and do not count." if skipped else "")
    )


def _smaller(result: Result) -> str:
    """How draws of very long data are smaller than these."""
    assert result.observations is not None, "bands need data"
    size, num = band_size(result.observations), result.observations.num_transitions
    return f" A resample has {size} of the {num} transitions, which the bands allow for." if size < num else ""


def landscape(found: Findings) -> Section:
    """Fixed points, potential, stationary density."""
    result, blocks = found.result, [fixed_points(found)]
    if found.agreement is not None:
        blocks.append(_agreement(found.agreement))
    if (cycle := found.cycle) is not None:
        ranges = ", ".join(
            f"{name} from {a:.{_DIGITS}g} to {b:.{_DIGITS}g}"
            for name, a, b in zip(result.names, cycle.low, cycle.high, strict=True)
        )
        period = f"{cycle.period:.{_DIGITS}g} {in_words(result.time_unit)}"
        blocks.append(Paragraph(f"Without noise the drift leads to a limit cycle of period {period}: {ranges}."))
    if result.dim > 2:
        blocks.append(Paragraph("Potential and stationary density are computed in one and two dimensions."))
    elif isinstance(density := found.density, str):
        blocks.append(Note("caution", density))
    else:
        blocks += _figures(
            ("potential with fixed points", lambda: plots.plot(result, "potential")),
            ("stationary density and histogram", lambda: plots.plot(result, "density")),
        )
        blocks.append(
            Paragraph(
                f"The stationary density solves the Fokker-Planck equation with reflecting walls around the data. It "
                f"is {density.distance():.2f} away from the histogram in total variation (0: equal, 1: nothing in "
                f"common); {density.unsupported_share:.1%} of it lies where no data are nearby, "
                f"{density.edge_share:.1%} at the walls. Short records differ from their long-run density by chance."
            )
        )
    return Section("landscape", "Fixed points, potential, stationary density", tuple(blocks))


def simulated(found: Findings) -> Section:
    """Simulated against observed."""
    if isinstance(played := found.replay, str):
        return Section("simulated", "Simulated against observed", (Note("caution", played),))
    outside = played.outside(*found.observations.box(0.1))
    blocks: list[Block] = [
        Paragraph(
            f"The equation was simulated {len(played.values)} times from the starts of the data at their times. "
            f"{outside:.1%} of the simulated states are outside the range of the data widened by a tenth."
        )
    ]
    if played.num_diverged:
        share = f"{played.num_diverged} of {played.num_simulated}"
        blocks.append(Note("bad", f"{share} simulated paths diverged: do not simulate this equation for long."))
    blocks += _figures(
        ("observed and simulated paths", lambda: plots.plot_paths(played)),
        ("densities and autocorrelations of data and simulations", lambda: plots.plot_statistics(played)),
    )
    return Section("simulated", "Simulated against observed", tuple(blocks))


def verdicts(found: Findings) -> Section:
    """What the checks say."""
    if isinstance(checks := found.checks, str):
        return Section("verdicts", "Verdicts", (Note("caution", checks),))
    notes = [Note(v.status, _verdict_text(v), _sentence(v.name)) for v in checks]
    return Section("verdicts", "Verdicts", tuple(notes))


def answer(found: Findings) -> Section:
    """The five lines on top of the page."""
    return Section("answer", "The answer", (answer_of(found),))


def _verdict_text(verdict: Verdict) -> str:
    """What was found, what explains it, and what to do; advice belongs to causes."""
    if verdict.because:
        return f"{_sentence(verdict.sentence)} Explained by the verdict on {verdict.because}."
    return f"{_sentence(verdict.sentence)} {verdict.next_step}".strip()


def equation(found: Findings) -> Section:
    """The formula."""
    if isinstance(formula := found.equation, str):
        return Section("equation", "Equation", (Note("caution", formula),))
    rows: list[tuple[str, ...]] = []
    for j, name in enumerate(formula.names):
        for what, polynomials in (("drift", formula.drift_terms), ("g", formula.diffusion_sq_terms)):
            rows += [(f"{what} of {name}", *row) for row in terms(formula, polynomials, j)]
    blocks: list[Block] = [
        Paragraph(
            "Sparse polynomials read out of the estimated fields where data are; terms were kept by the Bayesian "
            "information criterion, and the variance rate under the root is positive at every observed state. "
            + _explained(formula)
        ),
        formula_block(formula),
        *(Note("caution", f"{_sentence(said)}.") for said in little_drift(formula)),
        *([_agreement(found.agreement)] if found.agreement is not None else []),
        *(Paragraph(f"{_sentence(said)}.") for said in open_terms(formula)),
        table(("field", *columns(formula)), rows),
        *([Code(text, "Terms that were left out, with 95 % intervals")] if (text := left_out_text(formula)) else []),
        Code(formula.latex(), "LaTeX"),
        Code(formula.code(), "Python code"),
        *classes(found.result),
    ]
    return Section("equation", "Equation", tuple(blocks))


def _explained(formula: Equation) -> str:
    """How much of the fields the formula is, for components that have a formula."""
    shares = [
        float(share)
        for p in (formula.drift_terms, formula.diffusion_sq_terms)
        for share, coefficients in zip(p.explained, p.coefficients, strict=True)
        if coefficients.any()
    ]
    if not shares:
        return "There are none."
    return (
        f"They explain at least {max(min(shares), 0.0):.1%} of the mean square of every field of which a term was kept."
    )


def _agreement(agreement: Agreement) -> Note:
    """What is said about fixed points where both the table and the formula are shown."""
    return Note("good" if agreement.is_complete else "caution", agreement.sentence, "Fixed points")


def reproducibility(found: Findings, bands: BandSettings) -> Section:
    """Versions, seeds, checksums."""
    rows = [
        ("method", found.result.method),
        ("weights, SHA-256", weights_hash(found.result) or "no weights"),
        ("data, SHA-256", data_hash(found.observations)),
        ("seed", str(found.seed)),
        ("bands", _about_bands(found.result, bands)),
        *versions().items(),
    ]
    return Section("reproducibility", "Reproducibility", (properties(*rows),))


def _about_bands(result: Result, bands: BandSettings) -> str:
    if not (has_band(result) and bands.resamples):
        return "none"
    made_of = f"{bands.resamples} resamples" if is_bootstrapped(result) else f"{NUM_DRAWS} draws from the posterior"
    return f"{made_of}, level {bands.level:g}, seed {bands.seed}"


def citation() -> Section:
    """How to cite."""
    return Section("citation", "Citation", (Code(_CITATION.format(version=__version__)),))


def _figures(*drawn: tuple[str, Callable[[], Picture]]) -> list[Block]:
    """Pictures; what cannot be computed says why instead."""
    blocks: list[Block] = []
    for what, draw in drawn:
        try:
            figure = draw()
            share, both = min(1.0, figure.get_figwidth() / WIDTH), to_pictures(figure)
            caption = f"{_sentence(what)}."
            blocks.append(Image(both.wide, what, caption, share, both.narrow, has_many=both.has_many))
        except FimsdeError as error:
            blocks.append(Note("caution", str(error)))
    return blocks


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def heading(result: Result) -> str:
    """The title of the page."""
    return "Stochastic differential equation of " + ", ".join(split_unit(name)[0] for name in result.names)
