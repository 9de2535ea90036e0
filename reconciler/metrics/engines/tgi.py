"""TGI: its series name no model; they get that of the variant they belong to."""

from reconciler.metrics.engines.serving_engine import Counter, Gauge, ServingEngine, Usage, mean

KV_TOKENS = Gauge(metric="tgi_batch_max_total_tokens")

ENGINE = ServingEngine(
    name="tgi",
    port=80,
    running=(Gauge(metric="tgi_batch_current_size"),),
    waiting=(Gauge(metric="tgi_queue_size"),),
    finished=(Counter(metric="tgi_request_success", apart="method"),),
    input_tokens=(mean("tgi_request_input_length"),),
    output_tokens=(mean("tgi_request_generated_tokens"),),
    itl=(mean("tgi_request_mean_time_per_token_duration"),),
    wait=(mean("tgi_request_queue_duration"),),
    kv_cache_usage=(Usage(used=Gauge(metric="tgi_batch_current_max_tokens"), total=KV_TOKENS),),
    kv_tokens=(KV_TOKENS,),
)
