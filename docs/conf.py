"""Settings of the documentation: `make docs` builds it into docs/_build."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]
os.environ["MPLBACKEND"] = "agg"  # examples draw into files

from fimsde._version import __version__  # noqa: E402

project = "fimsde"
author = "The fimsde developers"
project_copyright = "The fimsde developers; MIT licence"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "executed", "mathml"]
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]  # generated tables start at the third level

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"fimsde {release}"
html_static_path = ["_static"]
html_css_files = ["fimsde.css"]
html_math_renderer = "mathml"  # no script, and nothing from another server
html_copy_source = False
html_show_sphinx = False

copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.printed) > div.highlight > pre"

add_module_names = False
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
