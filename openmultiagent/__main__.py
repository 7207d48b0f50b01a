"""``python -m openmultiagent``: the command line tool ``oma``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
