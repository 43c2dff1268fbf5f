"""`python -m tests.benchmarks check`: the time of `ssa-operator check` over a hundred templates.

Promises:
- The templates are those of Deployments, Services and ConfigMaps of several resources, each with a CRD and an example.
  The CRD allows variants.
- The time is that of the whole process, its start included, after a first run that isn't counted. It is compared with a
  process that compiles the same templates with plain Jinja, renders each once, and parses the text with libyaml.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks import machine
from tests.benchmarks.machine import Spread
from tests.benchmarks.process import measured

_CRD = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things@.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing@, plural: things@, singular: thing@}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      additionalPrinterColumns: [{name: Age, type: date, jsonPath: .metadata.creationTimestamp}]
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [replicas]
              properties:
                replicas: {type: integer, minimum: 0, maximum: 9}
                image: {type: string, pattern: "^nginx:"}
                greeting: {type: string}
                port: {type: integer, minimum: 1, maximum: 65535}
                policy: {type: string, enum: [Always, IfNotPresent, Never]}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
_EXAMPLE = """apiVersion: example.com/v1
kind: Thing@
metadata: {name: thing@}
spec: {replicas: 2, image: "nginx:1.27", greeting: hello, port: 80}
"""
_DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ name }}-@
  labels: {app: "{{ name }}-@"}
spec:
  replicas: {{ spec.replicas }}
  selector:
    matchLabels: {app: "{{ name }}-@"}
  template:
    metadata:
      labels: {app: "{{ name }}-@"}
    spec:
      containers:
        - name: web
          image: {{ spec.image | default("nginx:1.27") }}
          imagePullPolicy: {{ spec.policy | default("IfNotPresent") }}
          ports:
            - name: http
              containerPort: {{ spec.port | default(80) }}
          env:
            {% for each in ["A", "B", "C"] %}
            - name: {{ each }}
              value: {{ spec.greeting | default("") }}
            {% endfor %}
"""
_SERVICE = """apiVersion: v1
kind: Service
metadata:
  name: {{ name }}-@
spec:
  selector: {app: "{{ name }}-@"}
  ports:
    - port: {{ spec.port | default(80) }}
      targetPort: http
"""
_CONFIG = """apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-@
data:
  greeting: "{{ spec.greeting | default("none") }}"
  {% if spec.replicas > 1 %}
  many: "{{ spec.replicas }}"
  {% endif %}
"""
_TEXTS = {"deployment": _DEPLOYMENT, "service": _SERVICE, "config": _CONFIG}

_PLAIN = """
import sys, yaml, jinja2
from pathlib import Path
spec = {"replicas": 2, "image": "nginx:1.27", "greeting": "hello", "port": 80}
environment = jinja2.Environment()
for path in sorted(Path(sys.argv[1]).rglob("*.j2")):
    text = environment.from_string(path.read_text()).render(name="thing", spec=spec)
    list(yaml.load_all(text, yaml.CSafeLoader))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All results of one run. The figures are seconds, of the clock and of CPU."""

    date: str
    machine: Mapping[str, Any]
    templates: int
    check: Spread
    check_cpu: Spread
    plain: Spread
    """Plain Jinja and libyaml."""
    plain_cpu: Spread

    @property
    def ratio(self) -> float:
        """How often plain Jinja and libyaml render the templates in the CPU time of a check."""
        return round(self.check_cpu.median / self.plain_cpu.median, 2)


def write_project(folder: Path, templates: int, resources: int = 5) -> Path:
    """Write a project with that many templates, and return its templates folder."""
    for number in range(resources):
        for part, text in {"crds": _CRD, "examples": _EXAMPLE}.items():
            (folder / part).mkdir(exist_ok=True)
            (folder / part / f"{number}.yaml").write_text(text.replace("@", str(number)))
        (folder / "templates" / f"things{number}.example.com").mkdir(parents=True)
    for number in range(templates):
        kind = list(_TEXTS)[number // resources % len(_TEXTS)]
        at = number // resources // len(_TEXTS)
        path = folder / "templates" / f"things{number % resources}.example.com" / f"{kind}-{at}.yaml.j2"
        path.write_text(_TEXTS[kind].replace("@", str(at)))
    return folder / "templates"


def measure(templates: int, rounds: int) -> dict[str, Spread]:
    """Measure on files of its own. Raises RuntimeError if a process fails."""
    found: dict[str, list[tuple[float, float]]] = {"check": [], "plain": []}
    with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
        path = str(write_project(Path(folder), templates))
        for _ in range(rounds + 1):
            command = ["check", "--api-server=never", f"--templates={path}"]
            found["check"].append(measured([sys.executable, "-m", "ssa_operator", *command]))
            found["plain"].append(measured([sys.executable, "-c", _PLAIN, path]))
    # The first round compiles modules.
    spreads = {name: Spread.of([seconds for seconds, _ in each[1:]]) for name, each in found.items()}
    return spreads | {f"{name}_cpu": Spread.of([cpu for _, cpu in each[1:]]) for name, each in found.items()}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks check", description=__doc__)
    parser.add_argument("--templates", type=int, default=100, help="template files, of a manifest each")
    parser.add_argument("--rounds", type=int, default=5, help="how often each command runs")
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    options = parser.parse_args()
    began, described = dt.datetime.now(dt.UTC), machine.description()
    figures = measure(options.templates, options.rounds)
    date = began.isoformat(timespec="seconds")
    result = Result(date=date, machine=described, templates=options.templates, **figures)
    table = Table(title=f"{result.templates} templates, {options.rounds} rounds: seconds")
    for title in ("", "seconds", "CPU"):
        table.add_column(title)
    table.add_row("check", str(result.check), str(result.check_cpu))
    table.add_row("plain Jinja and libyaml, once", str(result.plain), str(result.plain_cpu))
    console = Console()
    console.print(table)
    console.print(f"a check takes the CPU time of {result.ratio} plain renders")
    if options.output:
        machine.write_json(options.output, result)


if __name__ == "__main__":
    main()
