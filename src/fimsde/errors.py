"""Everything fimsde raises on purpose. Each message says what was found, what is expected, and what to do."""


class FimsdeError(Exception):
    """Base of all errors that fimsde raises on purpose."""


class InvalidObservationsError(FimsdeError, ValueError):
    """The data or the query locations cannot be used as they are."""


class ObservationTypeError(InvalidObservationsError, TypeError):
    """The data are of a type that holds no real numbers."""


class ConfigError(FimsdeError, ValueError):
    """A setting has an unknown name, a wrong type or an impossible value."""


class CheckpointError(FimsdeError):
    """Weights cannot be loaded or saved."""


class OutputError(ConfigError, CheckpointError):
    """Results cannot appear under the name that was asked for, or must not: something there is not ours."""


class DatasetError(FimsdeError):
    """A generated data set is incomplete, damaged or belongs to other settings."""


class DataWarning(UserWarning):
    """Something about the data that the user may want to know and can act on."""


class GuessWarning(DataWarning):
    """How a table was read, where the columns were not named."""
