"""What an endpoint picker of llm-d tells of the models it routes to, under its new name and older ones.

It may lack a namespace, and stands before all engines: it counts what is offered, and what waits before any replica.
"""

from reconciler.metrics.quantities.quantity import PICKER_MODEL, PICKER_TARGET_MODEL, Name, Quantity

PER_PICKED_MODEL = ("namespace", PICKER_MODEL, PICKER_TARGET_MODEL)

SCRAPED = "job, endpoint, service, container, prometheus, prometheus_replica, replica"
"""Labels that scrapes add: series of one instance that differ in nothing else were scraped twice."""


def counted(metric: str) -> str:
    """What all pickers together counted a second, each once however often it was scraped."""
    return f"sum by ($by) (max without ({SCRAPED}) (rate({metric}{{$where}}[$window])))"


ARRIVALS = Quantity(
    name=Name.ARRIVALS_ENDPOINT_PICKER,
    unit="req/s",
    reason="offered requests, counted before any queue",
    by=PER_PICKED_MODEL,
    candidates=(
        counted("llm_d_epp_request_total"),
        counted("inference_objective_request_total"),
        counted("inference_model_request_total"),
    ),
)

QUEUE_SIZE = Quantity(
    name=Name.FLOW_CONTROL_QUEUE_SIZE,
    unit="requests",
    reason="what waits before any replica has it",
    by=PER_PICKED_MODEL,
    candidates=(
        "sum by ($by) (llm_d_epp_flow_control_queue_size{$where})",
        "sum by ($by) (inference_extension_flow_control_queue_size{$where})",
    ),
    may_lack_namespace=True,
)

QUEUE_BYTES = Quantity(
    name=Name.FLOW_CONTROL_QUEUE_BYTES,
    unit="bytes",
    reason="how long the prompts are that wait before any replica has them",
    by=PER_PICKED_MODEL,
    candidates=(
        "sum by ($by) (llm_d_epp_flow_control_queue_bytes{$where})",
        "sum by ($by) (inference_extension_flow_control_queue_bytes{$where})",
    ),
    may_lack_namespace=True,
)
