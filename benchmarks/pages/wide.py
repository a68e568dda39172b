"""Tables of the wide suite: the regret of the default estimator against the best specialist."""

from collections.abc import Callable

from fimsde.benchmark.wide.regret import Measure
from fimsde.benchmark.wide.store import read_all
from fimsde.benchmark.wide.tables import regret_tables
from fimsde.systems.canonical import REPORT_SEED
from fimsde.systems.wide.families import REPORTED
from pages.formats import markdown
from pages.stored import Stored

NOTHING = "Nothing is stored yet."
METHOD = "evidence"


def regret(measure: Measure) -> Callable[[Stored], str]:
    """Families that are only reported, report seeds: one of the measures."""

    def table(stored: Stored) -> str:
        names = {family.name for family in REPORTED}
        files = [file for file in read_all(stored.folder, REPORT_SEED) if file.family in names]
        wanted = {"drift": ", drift where the data are", "diffusion": ", diffusion where the data are"}[measure]
        for found in regret_tables(files, METHOD):
            if wanted in found.head:
                return markdown(list(found.columns), [list(row) for row in found.rows])
        return NOTHING

    return table


TABLES = {"wide-drift": regret("drift"), "wide-diffusion": regret("diffusion")}
