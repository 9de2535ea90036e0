"""All rows of the table, in the order in which they are printed."""

from tests.incidents.calm import CALM
from tests.incidents.rows import Incident

INCIDENTS: tuple[Incident, ...] = (*CALM,)
