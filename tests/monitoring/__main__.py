"""`python -m tests.monitoring [ARGUMENT...]`: plays when each alert of deploy/monitoring fires, and when not.

It needs Go, which builds Prometheus' promtool once. The arguments are those of `promtool test rules`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.go_programs import CACHE, build_once, go_build, required_version
from tests.packaging.checkout import ROOT

MODULE = Path(__file__).parent / "promtool"
PACKAGE = "github.com/prometheus/prometheus"
# The discovery of targets, which tests of rules do not need.
LEFT_OUT = "remove_all_sd"


def main() -> int:
    """Returns promtool's exit code."""
    program = CACHE / "promtool" / required_version(MODULE, PACKAGE) / "promtool"
    build_once(program, lambda new: go_build(MODULE, new, f"{PACKAGE}/cmd/promtool", tags=LEFT_OUT))
    stories = sorted(str(path) for path in Path(__file__).parent.glob("alerts/*.yaml"))
    for arguments in (("check", "rules", "deploy/monitoring/alerts.yaml"), ("test", "rules", *sys.argv[1:], *stories)):
        code = subprocess.run([program, *arguments], cwd=ROOT, check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
