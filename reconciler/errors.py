"""The whole exception tree.

    ReconcilerError
    ├── InputError              a resource or annotation must be fixed by its author; never retried   exit 3
    ├── ConfigurationError      command line, configuration or credentials are wrong; never retried   exit 5
    └── TransientError          the world may recover: retried, then left to the next run             exit 4
        └── RivalRunError       another run was faster; what it wrote stands                          exit 4

Doing nothing and being held are outcomes, not errors. Anything else that is raised is a bug (exit 1).
"""


class ReconcilerError(Exception):
    """Base of every error that the reconciler raises on purpose."""


class InputError(ReconcilerError):
    """Raised when something in the repository must be fixed by its author.

    `path` is relative to the repository's root, `line` counts from 1 (0: the whole file), `field` is a field path
    like `spec.variantCost` (empty: the whole document), `message` says what was expected and what was found.
    """

    def __init__(self, path: str, line: int, field: str, message: str) -> None:
        self.path = path
        self.line = line
        self.field = field
        self.message = message
        place = f"{path}:{line}" if line else path
        super().__init__(": ".join(part for part in (place, field, message) if part))


class ConfigurationError(ReconcilerError):
    """Raised when the command line, a configuration file or a credential is wrong."""


class TransientError(ReconcilerError):
    """Raised when Prometheus, git or the forge failed in a way that the next run may not meet."""


class RivalRunError(TransientError):
    """Raised when another run changed a head branch or pull request between our look and our write."""
