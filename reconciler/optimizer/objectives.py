"""Objectives: what makes one candidate of a model preferable to another."""

# What leaving an accelerator costs, as a share of the cost before and after (published inferno, version 1).
_ACCELERATOR_PENALTY = 0.1


def transition_value(
    *,
    current_accelerator: str,
    current_replicas: int,
    current_cost_per_hour: float,
    accelerator: str,
    replicas: int,
    cost_per_hour: float,
) -> float:
    """Return the objective `inferno` of going from the current allocation to a candidate: less is better.

    It is the difference in cost per hour, plus a tenth of both costs when the accelerator changes; a variant that was
    never allocated has the current accelerator `""`, no replicas and no cost. A difference ranks the candidates of one
    variant, it is not a total.
    """
    if accelerator == current_accelerator and replicas == current_replicas:
        return 0.0
    difference = cost_per_hour - current_cost_per_hour
    if accelerator == current_accelerator:
        return difference
    return _ACCELERATOR_PENALTY * (current_cost_per_hour + cost_per_hour) + difference


def transition_line(
    *, current_accelerator: str, current_cost_per_hour: float, accelerator: str, replica_cost_per_hour: float
) -> tuple[float, float]:
    """Return fixed value and slope of `transition_value` over the candidate's replicas.

    Exact wherever something changes; staying put is on the line as well as long as a replica costs what it did.
    """
    penalty = 0.0 if accelerator == current_accelerator else _ACCELERATOR_PENALTY
    return (penalty - 1) * current_cost_per_hour, (penalty + 1) * replica_cost_per_hour
