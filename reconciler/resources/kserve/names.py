"""The names that KServe gives what it makes, and its annotations."""

from hashlib import md5

GROUP = "serving.kserve.io"
SETTINGS_CONFIG_MAP = "inferenceservice-config"
STOP = f"{GROUP}/stop"
DEPLOYMENT_MODE = f"{GROUP}/deploymentMode"
AUTOSCALER_CLASS = f"{GROUP}/autoscalerClass"
_LONGEST, _DIGEST = 63, 32


def child_name(parent: str, suffix: str) -> str:
    """The name of what is made of `parent`: of a long name the beginning and its hash (knative.dev/pkg/kmeta)."""
    if len(parent) <= _LONGEST - len(suffix):
        return parent + suffix
    digest = md5(parent.encode(), usedforsecurity=False).hexdigest()
    return f"{parent[: _LONGEST - _DIGEST - len(suffix)]}{digest}{suffix}"
