"""Spans of time in the words of steps and holds."""


def ago(age_s: float) -> str:
    """`25m ago`, `just now`."""
    minutes = round(age_s / 60)
    return "just now" if minutes < 1 else f"{span(minutes * 60.0)} ago"


def span(span_s: float) -> str:
    """`25m`, `1h`, `1h 30m`."""
    hours, minutes = divmod(round(span_s / 60), 60)
    return f"{hours}h" if hours and not minutes else f"{hours}h {minutes}m" if hours else f"{minutes}m"
