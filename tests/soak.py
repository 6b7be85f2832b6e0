"""Hypothesis for minutes: `python -m tests.soak`. Rounds with new seeds until the time is up, or one fails.

Most of the time goes to the promises about views (properties, and the machine of several processes), a minute to each
kind of input from outside. Every round prints its seed; with it alone a failure comes back:
`pytest --hypothesis-profile=soak --hypothesis-seed=SEED FILE`.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Sequence

PROMISES = ("tests/unit/test_properties.py", "tests/unit/test_conversation_machine.py")
INPUTS = {
    "importers": ("tests/unit/test_fuzzed_inputs.py", "file or log"),
    "wire": ("tests/unit/test_fuzzed_inputs.py", "wire or standing"),
    "records": ("tests/unit/test_fuzzed_inputs.py", "record"),
    "policy": ("tests/unit/test_fuzzed_inputs.py", "policy"),
    "histories": ("tests/unit/test_fuzzed_inputs.py", "any_history"),
}
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=0", "--hypothesis-profile=soak")


def rounds(name: str, what: Sequence[str], minutes: float, seed: int) -> int:
    """Rounds until the time is up. Returns how many there were. Ends the process at the first that fails."""
    until_s = time.monotonic() + minutes * 60
    done = 0
    while time.monotonic() < until_s:
        began_s = time.monotonic()
        ran = subprocess.run([*PYTEST, f"--hypothesis-seed={seed + done}", *what], check=False)
        took_s = time.monotonic() - began_s
        said = "clean" if ran.returncode == 0 else "FAILED"
        sys.stdout.write(f"soak: {name}, seed {seed + done}: {said} in {took_s:.0f} s\n")
        sys.stdout.flush()
        if ran.returncode:
            sys.exit(ran.returncode)
        done += 1
    return done


def main() -> None:
    """The whole soak, and one line of what it came to."""
    options = argparse.ArgumentParser(description="Hypothesis for minutes, with the seed printed.")
    options.add_argument("--minutes", type=float, default=10, help="for the promises about views")
    options.add_argument("--input-minutes", type=float, default=1, help="for each kind of input")
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31), help="of the first round")
    args = options.parse_args()
    sys.stdout.write(f"soak: seed {args.seed}\n")
    sys.stdout.flush()
    counted = [f"views {rounds('views', PROMISES, args.minutes, args.seed)}"]
    for name, (file, chosen) in INPUTS.items():
        counted.append(f"{name} {rounds(name, (file, '-k', chosen), args.input_minutes, args.seed)}")
    sys.stdout.write(f"soak: clean; seed {args.seed}; rounds: {', '.join(counted)}\n")


if __name__ == "__main__":
    main()
