"""What made a file: versions of the package, of Python and of the libraries that numbers depend on."""

import platform
from importlib.metadata import PackageNotFoundError, version

from fimsde._version import __version__

_PACKAGES = ("torch", "numpy", "scipy", "numba")  # all that compute


def versions() -> dict[str, str]:
    """Versions by name, and the kind of machine; libraries that are not installed are left out."""
    found = {"fimsde": __version__, "Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | {"machine": f"{platform.system()} {platform.machine()}"}
