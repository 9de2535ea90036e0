"""All rows of the table, in the order in which they are printed."""

from tests.incidents.backlogs import BACKLOGS
from tests.incidents.calm import CALM
from tests.incidents.dips import DIPS
from tests.incidents.field import FIELD
from tests.incidents.gateway import GATEWAY
from tests.incidents.healthy import HEALTHY
from tests.incidents.lengths import LENGTHS
from tests.incidents.one_replica import ONE_REPLICA
from tests.incidents.profiles import PROFILES
from tests.incidents.proof import PROOF
from tests.incidents.rows import Incident
from tests.incidents.scraping import SCRAPING
from tests.incidents.uneven import UNEVEN
from tests.incidents.zero import ZERO

INCIDENTS: tuple[Incident, ...] = (
    *CALM,
    *ONE_REPLICA,
    *GATEWAY,
    *SCRAPING,
    *PROOF,
    *FIELD,
    *DIPS,
    *PROFILES,
    *LENGTHS,
    *BACKLOGS,
    *UNEVEN,
    *ZERO,
    *HEALTHY,
)
