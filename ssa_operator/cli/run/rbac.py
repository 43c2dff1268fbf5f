"""`ssa-operator rbac`: prints the permissions that an operator with these templates needs, or reviews those it has."""

from __future__ import annotations

from typing import Annotated

import typer

from ssa_operator.cli.completed_names import namespaces
from ssa_operator.cli.shared_options import (
    TEMPLATES,
    AdmissionService,
    Context,
    ConversionService,
    CrdsOfTemplates,
    Examples,
    Impersonate,
    Kubeconfig,
    Templates,
    Values,
)
from ssa_operator.operator.process.option_values import account_name, check_folders, installation_of, namespaces_of
from ssa_operator.operator.process.streams import CommandError, OutputFormat

LimitedNamespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        "-n",
        help="The operator watches only this namespace (repeatable); each gets a Role. Default: all namespaces.",
        autocompletion=namespaces,
    ),
]


EXAMPLE = "ssa-operator rbac --templates templates | kubectl apply -f -"


def rbac(
    templates: Templates = TEMPLATES,
    values: Values = None,
    crds: CrdsOfTemplates = None,
    examples: Examples = None,
    namespace: LimitedNamespaces = None,
    service_account: Annotated[
        str, typer.Option(help="Name of the operator's service account, and of its roles and bindings.")
    ] = "ssa-operator",
    operator_namespace: Annotated[str, typer.Option(help="Namespace of the operator and its Lease.")] = "ssa-operator",
    shards: Annotated[
        int,
        typer.Option(min=0, max=256, help="Number of shards (`run --shard I/N`), each with a Lease."),
    ] = 0,
    impersonate: Impersonate = "",
    admission_service: AdmissionService = "",
    conversion_service: ConversionService = "",
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="List the permissions that the current account lacks in the cluster, and exit with 1 if it lacks any.",
        ),
    ] = False,
    output: Annotated[
        OutputFormat | None,
        typer.Option("--output", "-o", help="Output format. Default: yaml, with --check table."),
    ] = None,
    helm_values: Annotated[
        bool,
        typer.Option(
            "--helm-values",
            help="Print the cluster-wide rules as values of the operator's Helm chart, which has the rest.",
        ),
    ] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print the permissions that the operator needs for these templates, as manifests. No cluster is needed."""
    from ssa_operator.tools import permissions
    from ssa_operator.tools.command_target import cluster_target
    from ssa_operator.tools.offline.project import crds_of, examples_of

    check_folders(templates)
    account_name(impersonate)
    namespaces = namespaces_of(namespace)
    (operator_namespace,) = namespaces_of([operator_namespace]) or ("",)
    if not operator_namespace:
        raise CommandError("--operator-namespace is empty; name the namespace of the operator", code=2)
    if output is OutputFormat.TABLE and not check:
        raise CommandError("--output table is for --check; manifests are yaml or json", code=2)
    if helm_values and (namespace or impersonate or check or output is not None):
        others = "--namespace, --impersonate, --check and --output"
        raise CommandError(f"--helm-values prints cluster-wide rules as YAML; {others} have no place there", code=2)
    files = permissions.Files(
        templates=templates,
        installation=installation_of(values, operator_namespace),
        crds=crds_of(templates, crds),
        examples=examples_of(examples, templates),
    )
    settings = permissions.OperatorSettings(
        namespace=operator_namespace,
        namespaces=namespaces,
        shards=shards,
        impersonate=impersonate,
        admission_service=admission_service,
        conversion_service=conversion_service,
    )
    if check:
        permissions.print_missing(files, settings, output, cluster_target(kubeconfig, context))
    elif helm_values:
        permissions.print_chart_values(files, settings)
    else:
        permissions.print_permissions(files, settings, service_account, output)
