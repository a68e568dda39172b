"""The list of all families."""

from fimsde.errors import ConfigError
from fimsde.systems.wide.family import Family
from fimsde.systems.wide.line import DEVELOPMENT_1D, REPORTED_1D
from fimsde.systems.wide.plane import DEVELOPMENT_2D, REPORTED_2D
from fimsde.systems.wide.space import DEVELOPMENT_3D, REPORTED_3D

DEVELOPMENT = (*DEVELOPMENT_1D, *DEVELOPMENT_2D, *DEVELOPMENT_3D)
REPORTED = (*REPORTED_1D, *REPORTED_2D, *REPORTED_3D)
FAMILIES = (*DEVELOPMENT, *REPORTED)


def find_family(name: str) -> Family:
    """A family by name."""
    for family in FAMILIES:
        if family.name == name:
            return family
    raise ConfigError(f"unknown family {name!r}; choose from {', '.join(f.name for f in FAMILIES)}.")
