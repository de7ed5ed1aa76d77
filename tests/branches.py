"""Branch coverage alone, after `coverage run`: every line can be passed while a branch is never taken.

`python -m tests.branches` prints one line, then the branches that no test took, and exits 1 under the floor.
"""

import json
import subprocess
import sys

FLOOR = 95.0  # percent of the branches of all files together


def main() -> int:
    done = subprocess.run(
        [sys.executable, "-m", "coverage", "json", "--fail-under=0", "-q", "-o", "-"], capture_output=True, text=True
    )
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        return 1
    found = json.loads(done.stdout)
    taken, there = found["totals"]["covered_branches"], found["totals"]["num_branches"]
    percent = 100 * taken / there if there else 0.0
    print(f"branches: {taken} of {there} = {percent:.1f} % (at least {FLOOR:g} %)")
    for name, one in sorted(found["files"].items()):
        if missed := one["missing_branches"]:
            print(f"  {name}: " + ", ".join(f"{line}->{to if to > 0 else 'exit'}" for line, to in missed))
    return 0 if percent >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
