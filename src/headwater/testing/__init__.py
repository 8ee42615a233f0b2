"""Tools to test Headwater, and programs built on it, against failing disks and under simulated time.

`probe`: an app opened for a test that controls time and restarts.
`Disk` and `DiskVFS`: a disk in memory that records a run and shows every way power could have failed in it.
`PowerLossVFS`: real files whose un-synced writes are lost with the process, so SIGKILL is a power loss.
`PostgresServer`: a PostgreSQL of its own, in a temporary folder, which a test may kill.
`SimClock` and `SeededEntropy`: a clock that a test moves, and names that are the same in every run. `open_at` opens an
app whose workflows use such a clock.
`SimLoop` and `simulate`: an event loop in which every sleep ends at once, in the right order.
"""

from headwater.testing.disk import Disk, DiskVFS
from headwater.testing.disk_history import CrashImage
from headwater.testing.postgres import PostgresServer
from headwater.testing.powerloss import PowerLossVFS
from headwater.testing.probe import Probe, ProbeError, probe
from headwater.testing.sim_clock import SeededEntropy, SimClock
from headwater.testing.sim_loop import SimLoop, simulate
from headwater.testing.sim_opening import open_at

__all__ = [
    "CrashImage",
    "Disk",
    "DiskVFS",
    "PostgresServer",
    "PowerLossVFS",
    "Probe",
    "ProbeError",
    "SeededEntropy",
    "SimClock",
    "SimLoop",
    "open_at",
    "probe",
    "simulate",
]
