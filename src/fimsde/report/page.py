"""Result -> report.html: sections one after the other, then one file that appears complete or not at all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from fimsde._version import __version__
from fimsde.equations.sde import SDE
from fimsde.files.outputs import new_file
from fimsde.plots import BandSettings
from fimsde.plots.bands import is_bootstrapped
from fimsde.report import sections
from fimsde.report.blocks import Image, Section
from fimsde.report.findings import STEPS, Findings, Progress, find
from fimsde.results.result import Result

SIGNATURE = '<meta name="generator" content="fimsde '  # in every page: how one of ours is known
_SECTIONS = 8  # of `_sections`, counted


@dataclass(frozen=True)
class Page:
    """A report before it is written."""

    title: str
    sections: tuple[Section, ...]

    @property
    def picture(self) -> bytes:
        """The first figure, drift and diffusion, as a PNG."""
        images = [block for section in self.sections for block in section.blocks if isinstance(block, Image)]
        return images[0].content

    def html(self) -> str:
        """The page as one file, which needs no other."""
        return render(self.title, self.sections)


def num_steps(result: Result, bands: BandSettings) -> int:
    """How often `find` and `make_page` together call their `progress`."""
    return len(STEPS) + _SECTIONS + (bands.resamples if is_bootstrapped(result) else 0)


def make_page(
    found: Findings, bands: BandSettings, *, truth: SDE | None = None, progress: Progress | None = None
) -> Page:
    """Draw and lay out what was found.

    Args:
        found: What `find` found about a result.
        bands: How bands are made.
        truth: An equation to draw beside curves of the estimate.
        progress: Called with a few words after every step; see `num_steps`.
    """
    made = tuple(_sections(found, bands, truth, progress or (lambda label: None)))
    return Page(sections.heading(found.result), made)


def write_report(
    result: Result,
    path: str | Path,
    *,
    bands: BandSettings | None = None,
    seed: int = 0,
    overwrite: bool = True,
    progress: Progress | None = None,
) -> Path:
    """Write a page about a result and its data.

    Args:
        result: Any result with observations.
        path: The file.
        bands: How bands are made.
        seed: Seed of simulations and checks.
        overwrite: Whether an earlier page of this kind may be replaced; any other file stays.
        progress: Called with a few words after every step; see `num_steps`.
    """
    with new_file(path, overwrite=overwrite, signature=SIGNATURE) as file:
        page = make_page(find(result, seed, progress), bands or BandSettings(seed=seed), progress=progress)
        file.write_text(page.html(), encoding="utf-8")
    return Path(path)


def render(title: str, made: Sequence[Section]) -> str:
    """The page; every text is escaped."""
    environment = Environment(
        loader=PackageLoader("fimsde.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    created = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    template = environment.get_template("page.html.jinja")
    return template.render(title=title, sections=made, version=__version__, created=created)


def _sections(found: Findings, bands: BandSettings, truth: SDE | None, progress: Progress) -> Iterator[Section]:
    yield sections.answer(found)
    if is_bootstrapped(found.result) and bands.resamples:
        progress("band 1")
        for k in range(2, bands.resamples + 1):  # kept by the result: figures ask for all of them at once
            found.result.resampled(k, bands.seed, for_band=True)
            progress(f"band {k}")
    for label, make in (
        ("drift and diffusion", lambda: sections.fields(found.result, bands, truth)),
        ("fixed points and densities", lambda: sections.landscape(found)),
        ("simulated against observed", lambda: sections.simulated(found)),
        ("verdicts", lambda: sections.verdicts(found)),
        ("equation", lambda: sections.equation(found)),
        ("data", lambda: sections.data(found)),
        ("reproducibility", lambda: sections.reproducibility(found, bands)),
        ("citation", sections.citation),
    ):
        yield make()
        progress(label)
