"""Tables and figures as files."""

from collections.abc import Sequence
from pathlib import Path

from fimsde.benchmark.figures import convergence, fields_and_paths
from fimsde.benchmark.summary import Cell
from fimsde.benchmark.tables import tables, to_csv, to_latex, to_markdown
from fimsde.benchmark.tasks import Experiment, tasks
from fimsde.files.outputs import new_file
from fimsde.methods import AnyMethod, Method


def text_tables(experiment: Experiment, cells: Sequence[Cell]) -> str:
    """All tables of an experiment in Markdown."""
    return "\n".join(to_markdown(table) for table in tables(experiment, cells))


def save_tables(experiment: Experiment, cells: Sequence[Cell], folder: Path) -> None:
    """Write the tables as .md and .tex, and every cell as .csv."""
    latex = "\n".join(to_latex(table) for table in tables(experiment, cells, markup="latex"))
    texts = {
        f"{experiment}.md": f"# {experiment}\n\n{text_tables(experiment, cells)}",
        f"{experiment}.tex": latex,
        f"{experiment}.csv": to_csv(cells),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        beginning = text.split("\n", 1)[0]
        with new_file(folder / name, overwrite=True, signature=beginning) as file:
            file.write_text(text, encoding="utf-8")


def save_figures(
    experiment: Experiment,
    cells: Sequence[Cell],
    methods: Sequence[AnyMethod],
    folder: Path,
    *,
    systems: Sequence[str] | None = None,
    seed: int = 0,
    quick: bool = False,
) -> list[Path]:
    """Draw the figures of an experiment: curves along training, or fields and paths of the first repetition."""
    folder.mkdir(parents=True, exist_ok=True)
    if experiment == "convergence":
        figures = {"convergence": convergence(cells)}
    elif experiment in ("canonical", "ablation"):
        functions = [method for method in methods if isinstance(method, Method)]
        chosen = tasks(experiment, seed=seed, repetitions=1, systems=systems, quick=quick)
        figures = {f"{task.system}-{task.setting}": fields_and_paths(task, functions) for task in chosen}
    else:
        figures = {}
    files = [folder / f"{experiment}-{name.replace('=', '').replace(',', '-')}.png" for name in figures]
    for file, name in zip(files, figures, strict=True):
        figures[name].savefig(file, dpi=120)
    return files
