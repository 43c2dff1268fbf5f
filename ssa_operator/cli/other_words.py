"""What to write instead of the commands and options of other tools: kubectl, Helm, Kustomize, Tilt, Terraform.

Promises:
- A word of another tool leads to the command that does the same here, or to the kubectl command that does it.
- The meaning of a word comes before its spelling: `create` is not a misspelt `tree`.
- An option is suggested only for a command that has it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

_SEE = "write status for all parents, tree KIND/NAME for one, and kubectl get for other objects"
_WHY = "write tree KIND/NAME for the objects below a parent, or blame KIND/NAME for who wrote their fields"
_CHECK = "write check, which finds what is wrong with templates and CRDs"
_RENDER = "write render FILE, which prints the manifests of a parent without a cluster"
_NEW = "write new KIND --group GROUP, or new --from-manifests FILE for manifests and rendered charts"
_INSTALL = "write crds apply for the CRDs, run for the operator, and apply FILE for a parent"
_CHANGE = "write diff FILE or plan to see what a change does, and apply FILE to make it"
_DELETE = "write kubectl delete KIND/NAME for the parent; Kubernetes and the operator delete its children"
_LOGS = (
    "run and dev print the operator's log; write kubectl logs for that of a pod, and status for the operator's report"
)
_DEV = "write dev, which runs a local cluster and the operator, and reloads changed templates"
_PREVIEW = "write diff FILE for one parent, or plan for all live parents; neither changes anything"
_CASES = "write test, which runs the golden cases; capture KIND/NAME saves a live parent as one"
_ROLES = "write rbac for the operator's roles; rbac --check lists the missing permissions"
_RECONCILE = "write apply FILE, or annotate the parent: kubectl annotate KIND/NAME ssa-operator.dev/reconcile-at=now"
_SUSPEND = "annotate the parent: kubectl annotate KIND/NAME ssa-operator.dev/suspend=true, and suspend- to resume it"
_EDIT = "the parents are objects of Kubernetes: write kubectl {} KIND/NAME"
_POD = "ssa-operator has no part in pods: write kubectl {}"

_MEANINGS: Mapping[str, tuple[str, ...]] = {
    _SEE: ("get", "list", "ls", "ps", "all", "parents", "resources", "show"),
    "write tree KIND/NAME for an object and all below it; the Events of the operator are in kubectl describe": (
        "describe",
        "inspect",
        "events",
        "event",
    ),
    _WHY: ("why", "trace", "owner", "owners", "managed-fields", "annotate-fields"),
    _CHECK: ("lint", "validate", "verify", "vet", "kubeconform", "kubeval", "doctor"),
    "write check --explain CODE for a finding, or kubectl explain KIND for the fields of a kind": ("explain",),
    "write check --fix": ("fix", "fmt", "format"),
    _RENDER: ("template", "manifest", "manifests", "build", "kustomize", "generate", "synth", "eval", "print"),
    _NEW: ("init", "create", "scaffold", "add", "make", "bootstrap", "import"),
    _INSTALL: ("install", "deploy", "setup"),
    _CHANGE: ("upgrade", "update", "set", "replace", "patch-templates"),
    _DELETE: ("delete", "del", "rm", "remove", "uninstall", "destroy", "prune"),
    _LOGS: ("logs", "log", "tail"),
    _DEV: ("up", "start", "serve", "watch", "develop", "ci"),
    "write cluster stop, which removes the local cluster; Ctrl-C stops run and dev": ("down", "stop", "kill"),
    _PREVIEW: ("preview", "dry-run", "dryrun", "compare", "changes"),
    _CASES: ("tests", "unittest", "snapshot", "record", "save"),
    _ROLES: ("auth", "can-i", "roles", "role", "permissions", "policy"),
    _RECONCILE: ("sync", "reconcile", "refresh", "resync", "restart"),
    _SUSPEND: ("suspend", "pause", "resume", "unsuspend"),
    "write crds wait for CRDs; apply FILE waits until its parents are ready": ("wait",),
    "write crds apply or crds wait": ("crd", "customresourcedefinitions"),
    "write cluster start, cluster stop or cluster kubeconfig": ("kind", "minikube", "kubeconfig", "config", "context"),
    "write graph KIND or graph FILE": ("deps", "dependencies", "dot", "diagram"),
    "write ssa-operator --install-completion": ("completion", "completions"),
    "write rollout undo FOLDER or rollout history FOLDER for a folder with the setting rollout; else git log shows the "
    "history of templates, and plan what a change would do": (
        "rollback",
        "undo",
        "history",
        "revert",
    ),
    "set the environment variables SSA_OPERATOR_<OPTION>; each command's help names them": ("env", "settings"),
}

_OF_KUBECTL: Mapping[str, tuple[str, ...]] = {
    _EDIT: ("edit", "patch", "scale", "label", "annotate"),
    _POD: ("exec", "port-forward", "attach", "cp", "top", "debug", "drain", "cordon", "proxy"),
}
"""Commands of kubectl, which do the same for parents and children."""

COMMANDS: Mapping[str, str] = {word: text for text, words in _MEANINGS.items() for word in words} | {
    word: text.format(word) for text, words in _OF_KUBECTL.items() for word in words
}

SUBCOMMANDS: Mapping[str, Mapping[str, str]] = {
    "cluster": {
        **dict.fromkeys(("create", "up", "run", "new", "init"), "write cluster start"),
        **dict.fromkeys(("delete", "down", "rm", "remove", "destroy", "kill"), "write cluster stop"),
        **dict.fromkeys(("get", "list", "ls", "info", "describe"), "write cluster status --name NAME"),
        **dict.fromkeys(("config", "env", "context"), "write cluster kubeconfig"),
    },
    "rollout": {"restart": _RECONCILE, **dict.fromkeys(("rollback", "revert", "abort"), "write rollout undo FOLDER")},
    "crds": {
        **dict.fromkeys(("install", "create", "update", "upgrade", "replace"), "write crds apply"),
        **dict.fromkeys(("get", "list", "ls", "describe"), "write kubectl get crds, or crds wait NAME"),
        **dict.fromkeys(("delete", "rm", "uninstall"), "write kubectl delete crd NAME, which deletes its objects, too"),
        **dict.fromkeys(("check", "validate", "lint"), "write check, which checks the CRDs with the templates"),
    },
}

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "--values": dict.fromkeys(
        ("--set", "--set-string", "--set-file", "--set-json", "--value"),
        "write --values FILE for settings of the installation; a field of the parent is set in its own file",
    ),
    "--filename": {"--file": "write --filename, or -f"},
    "--output": {"--format": "write --output", "--json": "write --output json", "--yaml": "write --output yaml"},
    "--watch": {"--follow": "write --watch"},
    "--all-namespaces": {"--all": "write --all-namespaces, or -A"},
    "--context": dict.fromkeys(("--kube-context", "--cluster"), "write --context"),
    "--selector": dict.fromkeys(("--label", "--labels", "--label-selector"), "write --selector"),
    "--templates": dict.fromkeys(("--chart", "--template", "--dir", "--path", "--folder"), "write --templates"),
    "--listen": dict.fromkeys(("--port", "--address", "--bind"), "write --listen HOST:PORT"),
    "--log-level": dict.fromkeys(("--verbose", "-v", "--debug"), "write --log-level debug"),
    "--impersonate": dict.fromkeys(("--as", "--service-account"), "write --impersonate NAME"),
    "--leader-elect": dict.fromkeys(("--leader-election", "--enable-leader-election"), "write --leader-elect"),
    "--kubeconfig": dict.fromkeys(("--server", "--token", "--user"), "write --kubeconfig FILE"),
    "--fix": dict.fromkeys(("--autocorrect", "--write"), "write --fix"),
}
"""Options of other tools that one of ours replaces, by ours."""

_REMARKS: Mapping[str, str] = {
    **dict.fromkeys(
        ("--dry-run", "--dryrun", "--whatif"), "write the command diff or plan, which change nothing in the cluster"
    ),
    **dict.fromkeys(("--wait", "--atomic"), "apply always waits until its parents are ready, for --timeout seconds"),
    **dict.fromkeys(
        ("--server-side", "--force-conflicts", "--force"), "every apply is server-side, and owns its fields"
    ),
    "--field-manager": "the field manager is always ssa-operator",
    **dict.fromkeys(("--all-namespaces", "-A"), "without -n the command has no other namespaces to show; leave it out"),
    **dict.fromkeys(("--verbose", "-v", "--debug"), "write ssa-operator --debug COMMAND for the traceback of an error"),
    **dict.fromkeys(("--no-color", "--no-colour", "--color", "--colour"), "set NO_COLOR=1 for output without colours"),
    **dict.fromkeys(("--quiet", "-q"), "write > /dev/null; errors go to standard error"),
    "--create-namespace": "write kubectl create namespace NAME first",
    "--recursive": "a folder stands for the YAML files in it; name each folder",
    "-R": "a folder stands for the YAML files in it; name each folder",
}
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
