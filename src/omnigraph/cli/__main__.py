"""`python -m omnigraph.cli` is the same as `omnigraph`."""

import sys

from omnigraph.cli import main

sys.exit(main())
