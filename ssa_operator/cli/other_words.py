"""What to write instead of the commands and options of other tools: kubectl, Helm, Kustomize, Tilt, Terraform.

Promises:
- A word of another tool leads to the command that does the same here, or to the kubectl command that does it.
- The meaning of a word comes before its spelling: `create` is not a misspelt `tree`.
- An option is suggested only for a command that has it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def _by_word(texts: Mapping[str, str]) -> Mapping[str, str]:
    """The text of each word; a key has several words, and `{}` in a text stands for the word."""
    return {word: text.format(word) for words, text in texts.items() for word in words.split()}


_RECONCILE = "write apply FILE, or annotate the parent: kubectl annotate KIND/NAME ssa-operator.dev/reconcile-at=now"

COMMANDS = _by_word(
    {
        "get list ls ps": "write status for all parents, tree KIND/NAME for one, and kubectl get for other objects",
        "describe inspect": "write tree KIND/NAME for an object and all below it, and kubectl describe for its Events",
        "why trace owner": "write blame KIND/NAME for who wrote the fields of a parent's objects",
        "lint validate verify kubeconform doctor": "write check, which finds what is wrong with templates and CRDs",
        "explain": "write check --explain CODE for a finding, or kubectl explain KIND for the fields of a kind",
        "fix fmt format": "write check --fix",
        "template manifest build generate": "write render FILE, which prints a parent's manifests without a cluster",
        "init create scaffold": "write new KIND --group GROUP, or new --from-manifests FILE for manifests and charts",
        "install deploy setup": "write crds apply for the CRDs, run for the operator, and apply FILE for a parent",
        "upgrade update set replace": "write diff FILE or plan to see what a change does, and apply FILE to make it",
        "delete rm remove uninstall destroy": "write kubectl delete KIND/NAME for the parent; its children go with it",
        "logs log tail": "run and dev print the operator's log; write kubectl logs for that of a pod",
        "up start serve watch": "write dev, which runs a local cluster and the operator, and reloads changed templates",
        "down stop": "write cluster stop, which removes the local cluster; Ctrl-C stops run and dev",
        "preview dry-run": "write diff FILE for one parent, or plan for all live parents; neither changes anything",
        "tests unittest": "write test, which runs the golden cases; capture KIND/NAME saves a live parent as one",
        "auth can-i roles": "write rbac for the operator's roles; rbac --check lists the missing permissions",
        "sync reconcile refresh restart": _RECONCILE,
        "suspend pause resume": "write kubectl annotate KIND/NAME ssa-operator.dev/suspend=true, or suspend- to resume",
        "wait": "write crds wait for CRDs; apply FILE waits until its parents are ready",
        "kind minikube kubeconfig config": "write cluster start, cluster stop or cluster kubeconfig",
        "completion": "write ssa-operator --install-completion",
        "rollback undo history": "write rollout undo FOLDER or rollout history FOLDER; without rollouts, use git",
        "env": "set the environment variables SSA_OPERATOR_<OPTION>; each command's help names them",
        "edit patch scale label annotate": "the parents are objects of Kubernetes: write kubectl {} KIND/NAME",
        "exec port-forward attach cp top debug": "ssa-operator has no part in pods: write kubectl {}",
    }
)

SUBCOMMANDS = {
    "cluster": _by_word(
        {
            "create up run": "write cluster start",
            "delete down rm destroy": "write cluster stop",
            "get list ls": "write cluster status --name NAME",
            "config env": "write cluster kubeconfig",
        }
    ),
    "rollout": _by_word({"restart": _RECONCILE, "rollback revert abort": "write rollout undo FOLDER"}),
    "crds": _by_word(
        {
            "install create update upgrade": "write crds apply",
            "get list ls": "write kubectl get crds, or crds wait NAME",
            "delete rm uninstall": "write kubectl delete crd NAME, which deletes its objects, too",
            "check validate lint": "write check, which checks the CRDs with the templates",
        }
    ),
}

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "--values": _by_word({"--set --set-string --set-file": "write --values FILE for settings of the installation"}),
    "--filename": _by_word({"--file": "write --filename, or -f"}),
    "--output": {"--format": "write --output", "--json": "write --output json", "--yaml": "write --output yaml"},
    "--watch": _by_word({"--follow": "write --watch"}),
    "--all-namespaces": _by_word({"--all": "write --all-namespaces, or -A"}),
    "--context": _by_word({"--kube-context --cluster": "write --context"}),
    "--selector": _by_word({"--label --labels": "write --selector"}),
    "--templates": _by_word({"--chart --dir --path": "write --templates"}),
    "--listen": _by_word({"--port --address": "write --listen HOST:PORT"}),
    "--log-level": _by_word({"--verbose -v --debug": "write --log-level debug"}),
    "--impersonate": _by_word({"--as --service-account": "write --impersonate NAME"}),
}
"""Options of other tools that one of ours replaces, by ours."""

_REMARKS = _by_word(
    {
        "--dry-run": "write the command diff or plan, which change nothing in the cluster",
        "--wait --atomic": "apply always waits until its parents are ready, for --timeout seconds",
        "--server-side --force-conflicts --force": "every apply is server-side, and owns its fields",
        "--field-manager": "the field manager is always ssa-operator",
        "--all-namespaces -A": "without -n the command has no other namespaces to show; leave it out",
        "--verbose -v --debug": "write ssa-operator --debug COMMAND for the traceback of an error",
        "--no-color --color": "set NO_COLOR=1 for output without colours",
        "--create-namespace": "write kubectl create namespace NAME first",
        "--recursive -R": "a folder stands for the YAML files in it; name each folder",
    }
)
"""Options of other tools without one of ours."""


def command_hint(group: str, word: str) -> str | None:
    """What to write instead of a command of another tool; `group` is the command whose subcommand it is, '' for none.
    None for a word that has no meaning here.
    """
    return (SUBCOMMANDS.get(group, {}) if group else COMMANDS).get(word.lower())


def option_hint(option: str, known: Collection[str]) -> str | None:
    """What to write instead of an option of another tool; `known` are the options of the command. None for an option
    that has no meaning here.
    """
    ours = (words[option] for name, words in OPTIONS.items() if name in known and option in words)
    return next(ours, _REMARKS.get(option))
