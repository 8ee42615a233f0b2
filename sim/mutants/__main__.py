"""`./hw mutants`: see sim/mutants/run.py."""

import sys

from sim.mutants.run import main

sys.exit(main(sys.argv[1:]))
