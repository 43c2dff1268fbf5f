"""`python -m tests.exploration`: plays random sequences of spec changes, and compares each state with a new parent's.

Without --kubeconfig and --context it plays on the local control plane. All templates and examples:
`python -m tests.exploration . examples/*/ --examples examples`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ssa_operator.cli.shared_options import CRDS, TEMPLATES
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.option_values import installation_of
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools.cases.golden_cases import find_suites
from tests.exploration.exploration import ExplorationOptions, explore
from tests.exploration.folder_exploration import SequenceOptions


def main() -> None:
    """Play the sequences. Exits with 1 if one ends otherwise than a new parent, and with 2 if none can be played."""
    parser = argparse.ArgumentParser(prog="python -m tests.exploration", description=__doc__)
    parser.add_argument("folders", nargs="*", help="projects or template folders (default: those of --templates)")
    parser.add_argument("--templates", type=Path, action="append", help="folder of templates (repeatable)")
    parser.add_argument("--crds", type=Path, action="append", help="folder of CRDs (repeatable)")
    parser.add_argument("--examples", type=Path, action="append", help="file or folder of parents (repeatable)")
    parser.add_argument("--replay", type=Path, action="append", default=[], help="play only this file (repeatable)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other changes")
    parser.add_argument("--sequences", type=int, default=5, help="sequences of each folder; 0: no limit")
    parser.add_argument("--steps", type=int, default=6, help="changes of each sequence at most")
    parser.add_argument("--minutes", type=float, default=0.0, help="minutes for each folder; 0: until all are played")
    parser.add_argument("--name", default="explore", help="name of the local control plane")
    parser.add_argument("--kubeconfig", help="explore on this cluster")
    parser.add_argument("--context", help="explore on the cluster of this context")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    given = parser.parse_args()
    target = Target(kubeconfig=given.kubeconfig, context=given.context) if given.kubeconfig or given.context else None
    sequences = SequenceOptions(
        examples=given.examples,
        seed=given.seed,
        sequences=given.sequences,
        steps=given.steps,
        seconds=given.minutes * 60,
        replay=given.replay,
        quiet=given.json,
    )
    try:
        suites = find_suites(given.folders, given.templates or TEMPLATES, given.crds or CRDS, installation_of(None, ""))
        explore(ExplorationOptions(suites=suites, target=target, name=given.name, sequences=sequences))
    except CommandError as error:
        print(f"exploration: {error}", file=sys.stderr)
        sys.exit(error.code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
