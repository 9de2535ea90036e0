"""PURE. What stands before replicas and counts requests as they arrive: endpoint pickers, routers, frontends.

To add one, add a record: the metrics it counts requests in, the labels that name the model, and, if it counts a
request only when it ends, the gauge of those under way. SGLang's older router (`sgl_router_requests_total`) and Ray
Serve's own counters name no model, and are of no use.
"""

from reconciler.domain.records import dataclass

MODEL = "routed_model"
"""The label with the model of a router's series, whatever its own labels are."""
_SCRAPE_LABELS = ("job", "endpoint", "service", "container", "prometheus", "prometheus_replica", "replica")
"""Labels that scrapes add: series of one instance that differ in nothing else are duplicates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """Counters of requests, the newest name first; of `models` the last label that has a value names the model.

    `under_way` are the requests that have arrived and are not counted yet; `apart` its own labels over which series
    add up although scrapes may add such a label too.
    """

    name: str
    requests: tuple[str, ...]
    models: tuple[str, ...]
    under_way: str = ""
    apart: tuple[str, ...] = ()

    def arrivals(self) -> tuple[str, ...]:
        """Requests that arrived a second, by namespace and model: one text for each name."""
        return tuple(f"{self._summed('rate', each)}{self._growth()}" for each in self.requests)

    def _growth(self) -> str:
        # what a shrinking queue hands on has arrived before, as with replicas
        return f" + clamp_min({self._summed('deriv', self.under_way)}, 0)" if self.under_way else ""

    def _summed(self, function: str, metric: str) -> str:
        added = ", ".join(each for each in _SCRAPE_LABELS if each not in self.apart)
        text = f"max without ({added}) ({function}({metric}{{$where}}[$window]))"
        for label in self.models:
            text = f'label_replace({text}, "{MODEL}", "$$1", "{label}", "(.+)")'
        return f"sum by ($by) ({text})"


ROUTERS = (
    # llm-d and KServe's LLMInferenceService: the model that was asked for, and the one it was sent to
    Router(
        name="endpoint picker",
        requests=("llm_d_epp_request_total", "inference_objective_request_total", "inference_model_request_total"),
        models=("model_name", "target_model_name"),
    ),
    # vLLM production-stack at a6c01db0, src/vllm_router/services: counted when a request comes in
    Router(
        name="vLLM router",
        requests=("vllm:num_incoming_requests_total", "vllm_num_incoming_requests_total"),
        models=("model",),
    ),
    # sgl-project/sglang, sgl-model-gateway/src/observability/metrics.rs: counted when a request is routed
    Router(
        name="SGLang model gateway", requests=("smg_router_requests_total",), models=("model",), apart=("endpoint",)
    ),
    # ai-dynamo/dynamo, lib/llm/src/http/service/metrics.rs: counted when a request ends
    Router(
        name="Dynamo frontend",
        requests=("dynamo_frontend_requests_total",),
        models=("model",),
        under_way="dynamo_frontend_inflight_requests",
        apart=("endpoint",),
    ),
)
"""In the order in which they are asked: the first that counts a model's requests counts."""
