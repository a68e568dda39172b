"""Run a suite: what is stored already is skipped, so a run can be stopped at any moment and started again."""

from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from fimsde.benchmark.suites.cases import Case, Suite, cases, load
from fimsde.benchmark.suites.measure import Score, measure, suite_code
from fimsde.benchmark.suites.store import Key, read_scores, scores_file, write_scores
from fimsde.errors import ConfigError
from fimsde.files.place import check_place
from fimsde.methods import AnyMethod
from fimsde.systems.canonical import REPORT_SEED

Results = dict[str, dict[Key, Score]]  # scores by method and case


def run_suite(
    suite: Suite,
    methods: Sequence[AnyMethod],
    *,
    out: str | Path = "bench",
    seed: int = REPORT_SEED,
    repetitions: int | None = None,
    systems: Sequence[str] | None = None,
    quick: bool = False,
    renew: bool = False,
) -> Results:
    """Measure methods on a suite, data set after data set, and store every score as soon as it is known.

    Args:
        suite: One of `SUITES`.
        methods: `named([...])` for those of the package, or your own `Method`.
        out: Folder of the scores.
        seed: `REPORT_SEED` for reports, `DEV_SEED` and above for development.
        repetitions: Data sets of each system; all by default.
        systems: Some of them.
        quick: Two data sets of a few systems; a later run keeps them.
        renew: Whether scores made by other code are computed again.
    """
    if not methods:
        raise ConfigError("no methods to run; pass at least one.")
    wanted = cases(suite, seed=seed, repetitions=repetitions, systems=systems, quick=quick)
    todo = {m.name: _missing(m, wanted, Path(out), renew) for m in methods}
    if any(todo.values()):
        check_place(Path(out), "--out")
    for case in tqdm([c for c in wanted if any(c in missing for missing in todo.values())], desc=suite, disable=None):
        sample = load(case)
        for method in (m for m in methods if case in todo[m.name]):
            score = measure(case, method, sample)
            file = scores_file(Path(out), suite, seed, method)
            write_scores(file, method, read_scores(file) | {_key(case): score})  # another process may have added some
    return stored(suite, methods, out=out, seed=seed, systems=systems)


def stored(
    suite: Suite,
    methods: Sequence[AnyMethod],
    *,
    out: str | Path,
    seed: int = REPORT_SEED,
    systems: Sequence[str] | None = None,
) -> Results:
    """All scores of these methods that are there, without computing any."""
    found: Results = {}
    for method in methods:
        scores = read_scores(scores_file(Path(out), suite, seed, method))
        kept = {key: score for key, score in scores.items() if systems is None or key[0] in systems}
        if kept:
            found[method.name] = kept
    return found


def other_code(suite: Suite, results: Results) -> list[str]:
    """One sentence for every method with scores that the present code did not make."""
    lines = []
    for method, scores in results.items():
        old = sum(score.code != suite_code(suite, method) for score in scores.values())
        if old:
            lines.append(f"{suite}, {method}: {old} of {len(scores)} scores are of other code; --renew computes them.")
    return lines


def _missing(method: AnyMethod, wanted: Sequence[Case], out: Path, renew: bool) -> set[Case]:
    scores = read_scores(scores_file(out, wanted[0].suite, wanted[0].seed, method))
    code = suite_code(wanted[0].suite, method.name)
    return {c for c in wanted if _key(c) not in scores or (renew and scores[_key(c)].code != code)}


def _key(case: Case) -> Key:
    return case.system, case.setting, case.repetition
