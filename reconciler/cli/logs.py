"""Logs: to stderr, in the format that was asked for."""

import json
import logging
import sys

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


def set_up_logging(*, quiet: bool, verbose: int, as_json: bool) -> None:
    """Logs to stderr; without flags only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(levelname)s %(message)s")
    handler.setFormatter(_JsonFormatter() if as_json else plain)
    root = logging.getLogger("reconciler")
    root.handlers = [handler]
    root.setLevel(logging.ERROR if quiet else LEVELS[min(verbose, 2)])


class _JsonFormatter(logging.Formatter):
    """One JSON object a line; no time, which the collector of a cluster's logs adds."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
