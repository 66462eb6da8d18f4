"""`python -m omnigraph` is the command line."""

import sys

from omnigraph.cli import main

if __name__ == "__main__":
    sys.exit(main())
