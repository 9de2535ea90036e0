"""EDGE. Settings: the only reader of configuration files and environment.

Files become layers (`files`, `layers`), are checked against one definition (`schema`), turned into domain values
(`conversion`) and protected (`trust`); `loading` does this in order. Secrets stay references until `SecretReader`.
"""

from reconciler.config.codec import dump, dump_settings, load, load_settings_json
from reconciler.config.environment import Environment, Flags, read_environment
from reconciler.config.files import REPOSITORY_FILE
from reconciler.config.json_schema import configuration_schema
from reconciler.config.loading import LoadedSettings, check_settings, load_settings
from reconciler.config.secrets import SecretReader

__all__ = [
    "REPOSITORY_FILE",
    "Environment",
    "Flags",
    "LoadedSettings",
    "SecretReader",
    "check_settings",
    "configuration_schema",
    "dump",
    "dump_settings",
    "load",
    "load_settings",
    "load_settings_json",
    "read_environment",
]
