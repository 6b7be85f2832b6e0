"""`python -m foldahead_worker.cli`: the same as `foldahead`. The stack starts its own processes with it."""

import sys

from foldahead_worker.cli.main import main

sys.exit(main())
