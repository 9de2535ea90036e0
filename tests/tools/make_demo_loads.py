"""Makes the loads that the demo's backtest replays: `python -m tests.tools.make_demo_loads`.

Two weeks of the demo's models with daily and weekly cycles, noise and surprises (`tests.bench.loads.smooth`, seed 3),
at the mean that each has in the recording.
"""

import csv
import gzip
import io

from reconciler.cli import sample as demo
from tests.bench.loads import smooth
from tests.tools.make_demo_recording import CHECKED_IN

MEANS = {
    "prod/batch/mistralai/Mixtral-8x7B-Instruct-v0.1": 11.0,
    "prod/chat/ibm-granite/granite-13b-instruct-v2": 11.0,
    "prod/chat/meta-llama/Llama-3.1-8B-Instruct": 150.0,
    "prod/chat/mistralai/Mistral-Nemo-Instruct-2407": 14.0,
    "prod/code/Qwen/Qwen2.5-7B-Instruct": 2.1,
    "prod/code/meta-llama/Llama-3.1-8B-Instruct": 13.0,
}
STEP_S, SEED = 600, 3


def made() -> str:
    """The file as text."""
    per_s = smooth(len(MEANS), SEED, float(STEP_S)).per_s
    per_s = per_s / per_s.mean(axis=1, keepdims=True)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("start_s", *MEANS))
    for place, shares in enumerate(per_s.T):
        rates = (share * mean for share, mean in zip(shares, MEANS.values(), strict=True))
        rows.writerow((place * STEP_S, *(f"{rate:.4g}" for rate in rates)))
    return text.getvalue()


if __name__ == "__main__":
    (CHECKED_IN.parent / demo.LOADS).write_bytes(gzip.compress(made().encode(), mtime=0))
