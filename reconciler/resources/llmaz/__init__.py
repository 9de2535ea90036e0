"""PURE. llmaz: OpenModel, Playground, Service, BackendRuntime and its global settings, and what they mean together."""

from reconciler.resources.llmaz.flavors import list_spellings, order_flavors, place_on, recognise_flavor
from reconciler.resources.llmaz.global_config import GLOBAL_CONFIG_MAP, read_global_config
from reconciler.resources.llmaz.models import read_model
from reconciler.resources.llmaz.playgrounds import read_playground
from reconciler.resources.llmaz.runtimes import read_runtime
from reconciler.resources.llmaz.served_models import ServedModel, join_served_models
from reconciler.resources.llmaz.services import read_service

__all__ = [
    "GLOBAL_CONFIG_MAP",
    "ServedModel",
    "join_served_models",
    "list_spellings",
    "order_flavors",
    "place_on",
    "read_global_config",
    "read_model",
    "read_playground",
    "read_runtime",
    "read_service",
    "recognise_flavor",
]
