"""What the API server requires of Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs and CronJobs.

The rules are those of k8s.io/kubernetes (pkg/apis/apps/validation, pkg/apis/batch/validation).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ssa_operator.objects.label_selectors import selects
from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.built_in_rules.constraints import (
    NON_NEGATIVE,
    Constraint,
    at_most,
    choice,
    count_or_percentage,
    every,
    fields,
    is_integer,
    is_missing,
    items,
    longest,
    required,
    set_choice,
    set_text,
    text,
    unique,
    when,
)
from ssa_operator.schema.built_in_rules.pod_spec import ALWAYS_RESTARTED, TEMPLATE
from ssa_operator.schema.built_in_rules.text_rules import (
    KEY,
    LABEL,
    SELECTOR,
    domain_path_faults,
    non_empty_selector,
    schedule_faults,
)
from ssa_operator.schema.built_in_rules.volumes import CLAIM_SPEC
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at
from ssa_operator.schema.metadata_validation import label_faults

_LONG_RUNNING = every(TEMPLATE, ALWAYS_RESTARTED)


def _selects_template(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """The selector matches the labels of the template."""
    selector = value.get("selector") if isinstance(value, Mapping) else None
    found = value_at(value, ("template", "metadata", "labels"))
    if isinstance(selector, Mapping) and (found is None or isinstance(found, Mapping)):
        expressions = selector.get("matchExpressions")
        known = expressions is None or (
            isinstance(expressions, list) and all(isinstance(each, Mapping) for each in expressions)
        )
        if known and (selector.get("matchLabels") or expressions) and not selects(selector, found or {}):
            words = "`selector` does not match template `labels`"
            yield error_at((*path, "template", "metadata", "labels"), found or {}, words)


def _workload(what: str, table: Mapping[str, Constraint], *whole: Constraint) -> Constraint:
    return fields(
        {
            "spec": fields(
                {
                    "selector": non_empty_selector(what),
                    "template": _LONG_RUNNING,
                    "minReadySeconds": NON_NEGATIVE,
                    **table,
                },
                required("selector"),
                _selects_template,
                *whole,
                structs=("template",),
            )
        },
        structs=("spec",),
    )


_SHARE = count_or_percentage()
_PART = count_or_percentage(most=100)


def _is_zero(value: Any) -> bool:
    return value in (0, "0%") and not isinstance(value, bool)


def _strategy(value: Any, path: FieldPath) -> Iterator[FieldError]:
    update = value.get("rollingUpdate") if isinstance(value, Mapping) else None
    if update is None:
        return
    if value.get("type") == "Recreate":
        words = "may not be specified when strategy `type` is 'Recreate'"
        yield error_at((*path, "rollingUpdate"), detail=words, kind=ErrorType.FORBIDDEN)
    elif isinstance(update, Mapping) and _is_zero(update.get("maxUnavailable")) and _is_zero(update.get("maxSurge")):
        words = "may not be 0 when `maxSurge` is 0"
        yield error_at((*path, "rollingUpdate", "maxUnavailable"), update["maxUnavailable"], words)


def _progress(value: Any, path: FieldPath) -> Iterator[FieldError]:
    deadline, ready = (value.get(name) for name in ("progressDeadlineSeconds", "minReadySeconds"))
    if is_integer(deadline) and deadline <= (ready if is_integer(ready) else 0):
        yield error_at((*path, "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")
    elif deadline is None and is_integer(ready) and ready >= 600:
        yield error_at((*path, "progressDeadlineSeconds"), 600, "must be greater than minReadySeconds")


DEPLOYMENT = _workload(
    "deployment",
    {
        "replicas": NON_NEGATIVE,
        "revisionHistoryLimit": NON_NEGATIVE,
        "progressDeadlineSeconds": NON_NEGATIVE,
        "strategy": fields(
            {
                "type": choice("Recreate", "RollingUpdate"),
                "rollingUpdate": fields({"maxUnavailable": _PART, "maxSurge": _SHARE}),
            },
            _strategy,
        ),
    },
    _progress,
)


def _daemon_update(value: Any, path: FieldPath) -> Iterator[FieldError]:
    update = value.get("rollingUpdate") if isinstance(value, Mapping) else None
    if not isinstance(update, Mapping) or value.get("type") == "OnDelete":
        return
    unavailable, surge = update.get("maxUnavailable"), update.get("maxSurge")
    unavailable = 1 if unavailable is None and surge is None else unavailable
    at = (*path, "rollingUpdate", "maxUnavailable")
    has_surge = not (surge is None or _is_zero(surge))
    if not has_surge and _is_zero(unavailable):
        yield error_at(at, unavailable, "cannot be 0 when maxSurge is 0", ErrorType.REQUIRED)
    elif has_surge and not _is_zero(1 if unavailable is None else unavailable):
        yield error_at((*path, "rollingUpdate", "maxSurge"), surge, "may not be set when maxUnavailable is non-zero")


DAEMON_SET = _workload(
    "daemonset",
    {
        "revisionHistoryLimit": NON_NEGATIVE,
        "updateStrategy": fields(
            {
                "type": choice("OnDelete", "RollingUpdate"),
                "rollingUpdate": fields({"maxUnavailable": _PART, "maxSurge": _PART}),
            },
            _daemon_update,
        ),
    },
)

REPLICA_SET = _workload("replicaset", {"replicas": NON_NEGATIVE})


def _on_delete(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, Mapping) and value.get("type") == "OnDelete" and value.get("rollingUpdate") is not None:
        words = "only allowed for updateStrategy 'RollingUpdate'"
        yield error_at((*path, "rollingUpdate"), value["rollingUpdate"], words)


_KEPT = choice("Delete", "Retain")


_CLAIMS = every(
    items(
        fields(
            {"spec": CLAIM_SPEC, "metadata": fields({"name": LABEL}, required("name"))},
            structs=("spec", "metadata"),
        )
    ),
)


def _set_name(value: Any, path: FieldPath) -> Iterator[FieldError]:
    name = value_at(value, ("metadata", "name"))
    if isinstance(name, str) and "." in name:
        yield error_at((*path, "metadata", "name"), name, "must not contain dots")
    elif isinstance(name, str) and len(name) > 63:
        yield error_at((*path, "metadata", "name"), name, "must be no more than 63 characters")


_STATEFUL_SET = _workload(
    "statefulset",
    {
        "replicas": NON_NEGATIVE,
        "serviceName": LABEL,
        "volumeClaimTemplates": _CLAIMS,
        "podManagementPolicy": choice("OrderedReady", "Parallel"),
        "updateStrategy": fields(
            {
                "type": choice("OnDelete", "RollingUpdate"),
                "rollingUpdate": fields({"partition": NON_NEGATIVE, "maxUnavailable": _PART}),
            },
            _on_delete,
        ),
        "persistentVolumeClaimRetentionPolicy": fields({"whenDeleted": _KEPT, "whenScaled": _KEPT}),
        "ordinals": fields({"start": NON_NEGATIVE}),
    },
)
STATEFUL_SET = every(_STATEFUL_SET, _set_name)

# ---- Jobs

_INDEXED_PARALLELISM = 100_000


def _completions(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    indexed = value.get("completionMode") == "Indexed"
    if indexed and value.get("completions") is None:
        yield error_at((*path, "completions"), detail="when completion mode is Indexed", kind=ErrorType.REQUIRED)
    parallel = value.get("parallelism")
    if indexed and is_integer(parallel) and parallel > _INDEXED_PARALLELISM:
        words = f"must be less than or equal to {_INDEXED_PARALLELISM} when completion mode is Indexed"
        yield error_at((*path, "parallelism"), parallel, words)
    failed, completions = value.get("maxFailedIndexes"), value.get("completions")
    if failed is not None and value.get("backoffLimitPerIndex") is None:
        yield error_at(
            (*path, "backoffLimitPerIndex"), detail="when maxFailedIndexes is specified", kind=ErrorType.REQUIRED
        )
    if indexed and is_integer(failed) and is_integer(completions) and failed > completions:
        yield error_at((*path, "maxFailedIndexes"), failed, "must be less than or equal to completions")
    if not indexed:
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if value.get(name) is not None:
                yield error_at((*path, name), value[name], "requires indexed completion mode")


def _restarts(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    policy = value_at(value, ("template", "spec", "restartPolicy"))
    at = (*path, "template", "spec", "restartPolicy")
    words = 'valid values: "OnFailure", "Never"'
    if is_missing(policy) and isinstance(value_at(value, ("template", "spec")), Mapping):
        yield error_at(at, detail=words, kind=ErrorType.REQUIRED)
    elif policy == "Always":
        yield error_at(at, policy, f"supported {words.removeprefix('valid ')}", ErrorType.NOT_SUPPORTED)
    elif value.get("podFailurePolicy") is not None and policy == "OnFailure":
        yield error_at(at, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _exit_codes(value: Any, path: FieldPath) -> Iterator[FieldError]:
    codes = value.get("values") if isinstance(value, Mapping) else None
    at = (*path, "values")
    found = codes if isinstance(codes, list) else []
    if not found:
        yield error_at(at, found, "at least one value is required")
    if value.get("operator") == "In" and 0 in found:
        yield error_at(at, 0, "must not be 0 for the In operator")
    whole = [each for each in found if is_integer(each)]
    if whole != sorted(whole):
        yield error_at(at, whole, "must be ordered")


_FAILURE_RULE = fields(
    {
        "action": choice("Count", "FailIndex", "FailJob", "Ignore"),
        "onExitCodes": fields(
            {"operator": choice("In", "NotIn"), "values": every(unique(), at_most(255))},
            required("operator"),
            _exit_codes,
        ),
        "onPodConditions": items(fields({"type": KEY, "status": choice("False", "True", "Unknown")}, required("type"))),
    },
    required("action"),
)


def _failure_rules(value: Any, path: FieldPath) -> Iterator[FieldError]:
    rules = value_at(value, ("podFailurePolicy", "rules"))
    containers = {
        str(each.get("name"))
        for field in ("containers", "initContainers")
        for found in [value_at(value, ("template", "spec", field))]
        for each in (found if isinstance(found, list) else ())
        if isinstance(each, Mapping)
    }
    for position, rule in enumerate(rules if isinstance(rules, list) else ()):
        at = (*path, "podFailurePolicy", "rules", position)
        if not isinstance(rule, Mapping):
            continue
        found = [name for name in ("onExitCodes", "onPodConditions") if rule.get(name)]
        if len(found) != 1:
            words = "specifying one of onExitCodes and onPodConditions is required, and not both"
            yield error_at(at, rule, words)
        if rule.get("action") == "FailIndex" and value.get("backoffLimitPerIndex") is None:
            yield error_at((*at, "action"), "FailIndex", "requires the backoffLimitPerIndex to be set")
        name = value_at(rule, ("onExitCodes", "containerName"))
        if isinstance(name, str) and name not in containers:
            words = "must be one of the container or initContainer names in the pod template"
            yield error_at((*at, "onExitCodes", "containerName"), name, words)
    policy = value.get("podReplacementPolicy") if isinstance(value, Mapping) else None
    if isinstance(rules, list) and policy == "TerminatingOrFailed":
        yield error_at((*path, "podReplacementPolicy"), policy, 'supported values: "Failed"', ErrorType.NOT_SUPPORTED)


def _successes(value: Any, path: FieldPath) -> Iterator[FieldError]:
    rules, completions = value_at(value, ("successPolicy", "rules")), value_at(value, ("completions",))
    for position, rule in enumerate(rules if isinstance(rules, list) else ()):
        at = (*path, "successPolicy", "rules", position)
        if not isinstance(rule, Mapping):
            continue
        count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            words = "at least one of succeededCount or succeededIndexes must be specified"
            yield error_at(at, detail=words, kind=ErrorType.REQUIRED)
        if is_integer(count) and is_integer(completions) and count > completions:
            words = f"must be less than or equal to {completions} (the number of specified completions)"
            yield error_at((*at, "succeededCount"), count, words)
        if isinstance(indexes, str) and is_integer(completions):
            size = _index_count(indexes, completions)
            if size is None:
                words = "must be indexes below the number of completions, in order: 0,2-4"
                yield error_at((*at, "succeededIndexes"), indexes, words)
            elif is_integer(count) and count > size:
                words = f"must be less than or equal to {size} (the number of indexes in succeededIndexes)"
                yield error_at((*at, "succeededCount"), count, words)


def _index_count(text_of_indexes: str, completions: int) -> int | None:
    """How many indexes a text has (0,2-4); None if it is none."""
    if not text_of_indexes:
        return 0
    last, total = -1, 0
    for part in text_of_indexes.split(","):
        low, dash, high = part.partition("-")
        if not (
            low.isascii()
            and low.isdigit()
            and len(low) < 10
            and (not dash or (high.isascii() and high.isdigit() and len(high) < 10))
        ):
            return None
        begin, end = int(low), int(high or low)
        if begin <= last or end < begin or end >= completions or (dash and begin == end):
            return None
        total, last = total + end - begin + 1, end
    return total


_GENERATED = {"job-name", "batch.kubernetes.io/job-name"}
"""The labels of a Job's pods that are known before there is the Job."""


def _generated_selector(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    selected = value_at(value, ("selector", "matchLabels"))
    own = selected.keys() - _GENERATED if isinstance(selected, Mapping) else ()
    if not value.get("manualSelector") and own:
        words = "`selector` not auto-generated: remove it, or set manualSelector"
        yield error_at((*path, "selector"), value["selector"], words)
    if value.get("manualSelector") and value.get("selector") is None:
        yield error_at((*path, "selector"), detail="when manualSelector is set", kind=ErrorType.REQUIRED)


_COUNTS = (
    "parallelism",
    "completions",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_JOB_FIELDS: Mapping[str, Constraint] = {
    **dict.fromkeys(_COUNTS, NON_NEGATIVE),
    "activeDeadlineSeconds": NON_NEGATIVE,
    "completionMode": choice("Indexed", "NonIndexed"),
    "podReplacementPolicy": set_choice("Failed", "TerminatingOrFailed"),
    "managedBy": every(set_text(domain_path_faults), longest(63)),
    "template": TEMPLATE,
    "selector": SELECTOR,
    "podFailurePolicy": fields({"rules": every(items(_FAILURE_RULE), at_most(20))}),
    "successPolicy": fields(
        {"rules": every(items(fields({"succeededCount": NON_NEGATIVE})), at_most(20))},
        required("rules", detail="at least one rules must be specified when the successPolicy is specified"),
    ),
}
_JOB_SPEC = fields(_JOB_FIELDS, _completions, _restarts, _failure_rules, _successes, structs=("template",))
JOB = fields(
    {"spec": every(_JOB_SPEC, when(lambda spec: spec.get("manualSelector"), _selects_template), _generated_selector)},
    structs=("spec",),
)


def _job_names(value: Any, path: FieldPath) -> Iterator[FieldError]:
    name, completions = value_at(value, ("metadata", "name")), value_at(value, ("spec", "completions"))
    indexed = value_at(value, ("spec", "completionMode")) == "Indexed"
    if indexed and isinstance(name, str) and is_integer(completions) and completions > 0:
        pod = f"{name}-{completions - 1}"
        if label_faults(pod):
            words = f"will not able to create pod with invalid DNS label: {pod}"
            yield error_at((*path, "metadata", "name"), name, words)


JOB = every(JOB, _job_names)


_AREAS = (
    "Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Brazil", "Canada", "Chile", "Etc",
    "Europe", "Indian", "Mexico", "Pacific", "US",
)  # fmt: skip
_ZONES = frozenset(
    [
        "CET",
        "CST6CDT",
        "Cuba",
        "EET",
        "EST",
        "EST5EDT",
        "Egypt",
        "Eire",
        "GB",
        "GB-Eire",
        "GMT",
        "GMT+0",
        "GMT-0",
        "GMT0",
        "Greenwich",
        "HST",
        "Hongkong",
        "Iceland",
        "Iran",
        "Israel",
        "Jamaica",
        "Japan",
        "Kwajalein",
        "Libya",
        "MET",
        "MST",
        "MST7MDT",
        "NZ",
        "NZ-CHAT",
        "Navajo",
        "PRC",
        "PST8PDT",
        "Poland",
        "Portugal",
        "ROC",
        "ROK",
        "Singapore",
        "Turkey",
        "UCT",
        "UTC",
        "Universal",
        "W-SU",
        "WET",
        "Zulu",
    ]
)
"""The names of IANA's time zones: their areas, and those without one."""


def _zone_faults(zone: str) -> list[str]:
    if not zone:
        return ["must be nil or non-empty string"]
    if zone.lower() == "local":
        return ["timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"]
    area, slash, _ = zone.partition("/")
    known = all(character.isascii() and (character.isalnum() or character in "+-_/") for character in zone)
    return [] if known and (area in _AREAS if slash else zone in _ZONES) else [f"unknown time zone {zone}"]


def _time_zone(value: Any, path: FieldPath) -> Iterator[FieldError]:
    zone = value.get("timeZone") if isinstance(value, Mapping) else None
    if isinstance(zone, str):
        yield from (error_at((*path, "timeZone"), zone, words) for words in _zone_faults(zone))


def _cron_name(value: Any, path: FieldPath) -> Iterator[FieldError]:
    name = value_at(value, ("metadata", "name"))
    if isinstance(name, str) and len(name) > 52:
        yield error_at((*path, "metadata", "name"), name, "must be no more than 52 characters")


def _no_selector(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """Kubernetes selects the pods of each Job of a CronJob itself."""
    for name in ("manualSelector", "selector") if isinstance(value, Mapping) else ():
        if value.get(name) not in (None, False):
            yield error_at((*path, name), value[name], "`selector` will be auto-generated: remove it")


CRON_JOB = fields(
    {
        "spec": fields(
            {
                "schedule": text(schedule_faults),
                "concurrencyPolicy": choice("Allow", "Forbid", "Replace"),
                "startingDeadlineSeconds": NON_NEGATIVE,
                "successfulJobsHistoryLimit": NON_NEGATIVE,
                "failedJobsHistoryLimit": NON_NEGATIVE,
                "jobTemplate": fields({"spec": every(_JOB_SPEC, _no_selector)}, structs=("spec",)),
            },
            required("schedule"),
            _time_zone,
            structs=("jobTemplate",),
        )
    },
    _cron_name,
    structs=("spec",),
)
