"""Run scripts one after the other in one fresh interpreter, as users run them: python run_examples.py FOLDER SCRIPT ...

Each script works in a folder of its own. The last line printed is a JSON object: for each script what it printed, the
names of the pictures it wrote, CPU seconds, and the traceback if it failed.
"""

import contextlib
import io
import json
import os
import runpy
import sys
import time
import traceback
import warnings
from pathlib import Path


def run(script: Path, folder: Path) -> dict[str, object]:
    """Run one script in a new folder."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    printed, failure, before = io.StringIO(), None, time.process_time()
    with contextlib.redirect_stdout(printed):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except Exception:
            failure = traceback.format_exc()
    seconds = time.process_time() - before
    pictures = sorted(file.name for file in folder.glob("*.png") if file.stat().st_size > 5000)
    return {"printed": printed.getvalue(), "pictures": pictures, "seconds": round(seconds, 1), "failure": failure}


if __name__ == "__main__":
    warnings.simplefilter("error")
    out, *scripts = (Path(argument).resolve() for argument in sys.argv[1:])
    print(json.dumps({script.stem: run(script, out / script.stem) for script in scripts}))
