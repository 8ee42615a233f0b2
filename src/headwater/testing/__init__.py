"""Tools to test Headwater, and whatever is built on it, against failing disks.

`Disk` and `DiskVFS`: a disk in memory which records a run and shows every way power could have failed in it.
`PowerLossVFS`: real files whose un-synced writes die with the process, so SIGKILL is a power loss.
"""

from headwater.testing.disk import CrashImage, Disk, DiskVFS
from headwater.testing.powerloss import PowerLossVFS

__all__ = ["CrashImage", "Disk", "DiskVFS", "PowerLossVFS"]
