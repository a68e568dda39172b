"""The wheel and the source archive as a user meets them: complete, and working in a clean environment outside the tree.

`make package` builds both into a folder and calls this with it. Nothing of the checkout is on the path of the
environments; they start in a directory that takes no files from anybody, with an empty home.
"""

import json
import math
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).parent.parent
URLS = {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
READ_ONLY = "/proc" if Path("/proc").is_dir() else "/"  # takes no files, not even from root


def main(folder: Path) -> None:
    """Check the one wheel and the one source archive in a folder."""
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_source(source)
    check_wheel(wheel)
    for archive in (wheel, source):
        with tempfile.TemporaryDirectory(prefix="fimsde-package-") as place:
            use(archive, Path(place))
        print(f"{archive.name}: complete, installed alone, and used", flush=True)


def tracked(under: str = ".") -> set[str]:
    """Files under version control."""
    listed = subprocess.run(["git", "ls-files", "-z", under], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(listed.stdout.split("\0")) - {""}


def check_source(archive: Path) -> None:
    """The source archive holds what version control holds, so that everything can be built and tested from it."""
    with tarfile.open(archive) as opened:
        found = {member.name.partition("/")[2] for member in opened if member.isfile()}
    check_same(archive, found - {"PKG-INFO"}, tracked())


def check_wheel(archive: Path) -> None:
    """The wheel holds the package, weights and marker of types included, and nothing else but its description."""
    with zipfile.ZipFile(archive) as opened:
        names = set(opened.namelist())
        described = {name for name in names if ".dist-info/" in name}
        (file,) = (name for name in described if name.endswith("/METADATA"))
        metadata = message_from_bytes(opened.read(file))
    expected = {name.removeprefix("src/") for name in tracked("src")}
    assert {"fimsde/py.typed", "fimsde/weights/model.safetensors", "fimsde/weights/config.json"} <= expected
    check_same(archive, names - described, expected)
    assert any(name.endswith("/licenses/LICENSE") for name in described), f"{archive.name} lacks the licence"
    check_urls(metadata)


def check_urls(metadata: Message) -> None:
    found = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert found.keys() == URLS, f"expected addresses {sorted(URLS)}, found {sorted(found)}"
    assert all(url.startswith("https://") for url in found.values()), found


def check_same(archive: Path, found: set[str], expected: set[str]) -> None:
    missing, surplus = sorted(expected - found), sorted(found - expected)
    assert not missing, f"{archive.name} lacks {missing[:10]} ({len(missing)} in all)"
    assert not surplus, f"{archive.name} holds {surplus[:10]} ({len(surplus)} in all), not under version control"


def use(archive: Path, place: Path) -> None:
    """Install an archive into an environment of its own, with what it declares and nothing else, and use it."""
    (place / "home").mkdir()
    forgotten = {name for name in os.environ if name.startswith(("PYTHON", "VIRTUAL_ENV", "NUMBA", "XDG_"))}
    env = {name: value for name, value in os.environ.items() if name not in forgotten}
    constraints = ("--constraint", str(ROOT / "constraints.txt"))

    def run(*command: str | Path, home: str = str(place / "home")) -> str:
        print("$", *command, flush=True)
        done = subprocess.run(
            command,
            cwd=READ_ONLY,
            env={**env, "HOME": home},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0, f"exit code {done.returncode}: {done.stdout}"
        return done.stdout

    run(sys.executable, "-m", "venv", place / "env")
    python, fimsde = place / "env" / "bin" / "python", place / "env" / "bin" / "fimsde"
    # pip keeps its settings and its cache under the real home
    run(python, "-m", "pip", "install", "--quiet", *constraints, archive, home=os.environ.get("HOME", ""))
    run(python, "-m", "pip", "check")
    where = run(python, "-W", "error", "-c", "import fimsde; print(fimsde.__file__)")
    assert Path(where.strip()).is_relative_to(place), f"the package of {where} was used"
    version = run(fimsde, "--version")
    assert archive.name.removeprefix("fimsde-").startswith(version.split()[-1]), version
    assert "weights" in run(fimsde, "info")
    run(fimsde, "demo", "--out", place / "demo")
    assert (place / "demo" / "report.html").stat().st_size > 100_000
    (place / "walk.csv").write_text(relaxation())
    run(fimsde, "estimate", place / "walk.csv", "--time", "t", "--out", place / "result")
    check_result(json.loads((place / "result" / "result.json").read_text()))


def relaxation() -> str:
    """A small table: dx = -2 x dt + 0.5 dW, observed 800 times."""
    draw, x, rows = random.Random(0), 0.0, ["t,x"]
    for i in range(800):
        rows.append(f"{0.05 * i:.2f},{x!r}")
        for _ in range(10):
            x += -2 * x * 0.005 + 0.5 * math.sqrt(0.005) * draw.gauss(0, 1)
    return "\n".join(rows) + "\n"


def check_result(record: dict) -> None:
    """One stable place near zero: an answer, not just files."""
    points = record["fixed_points"]
    assert [point["kind"] for point in points] == ["stable node"], points
    assert abs(points[0]["x"][0]) < 0.25, points


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
