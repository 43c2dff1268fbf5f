"""Redacts the API server's messages about Secrets, and about manifests with their content, by an allowlist.

Kubernetes' validation errors quote the value that they refuse. The rules here keep only parts that can't quote a value:
the names of fields, the reason, and sentences that are constants in Kubernetes' source.

Promises:
- A message is shown only if a rule allows it. Every other message is replaced.
- The user still reads which field is wrong, and that it is immutable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ssa_operator.objects.field_refusal import FieldRefusal
from ssa_operator.objects.identity import is_built_in, split_api_version
from ssa_operator.objects.json_codec import decode_text, decoder
from ssa_operator.objects.secret_fields import SecretFields
from ssa_operator.objects.source_location import field_text, parse_field, value_at

HIDDEN = "(the server's message is not shown: it may hold the Secret's content)"

_FIXED_ENDINGS = (
    "field is immutable",
    "field is immutable when `immutable` is set",
    "may not change once set",
    "cannot change roleRef",
    "can only be modified in tandem with spec.parallelism",
)
"""apimachinery/pkg/api/validation and pkg/apis/*/validation; after `Invalid value: <the value>: `."""

_FIXED_BEGINNINGS = (
    "`selector` does not match template `labels`",
    "a DNS-1035 label must consist of lower case alphanumeric characters",
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters",
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters",
    "a valid config key must consist of alphanumeric characters",
    "a valid label must be an empty string or consist of alphanumeric characters",
    "must be between 1 and 65535, inclusive",
    "must be greater than or equal to 0",
    "must be greater than zero",
    "must be no more than 63",
    "must be unique",
    "must specify a volume type",
    "may not specify more than 1 volume type",
    "may not be specified when `value` is not empty",
    "may not be specified when strategy `type` is 'Recreate'",
    "name part must consist of alphanumeric characters",
    "updates to statefulset spec for fields other than",
    "pod updates may not change fields other than",
    "pod updates may not add or remove containers",
    "may not be changed in an update",
    "spec is immutable after creation",
    "spec.persistentvolumesource is immutable",
    "existing toleration can not be modified",
)
"""Of the same and of apimachinery/pkg/util/validation; after `Forbidden: ` or after the refused value. What follows, a
diff of values for example, is not shown.
"""

_LABELS = {
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTypeInvalid": "Invalid value of this type",
}
_SAFE_CODES = frozenset({401, 404, 409, 410, 429})
_RESOURCE = r"[a-z0-9-]+(?:\.[a-z0-9.-]+)?"
_RBAC = (
    rf'^{_RESOURCE} (?:"[^"]*" )?is forbidden: User "[^"]*" cannot [\w:-]+ resource "[a-z0-9./-]+" in API group '
    r'"[a-z0-9.-]*"[^:"]*(?:"[^"]*")?$'
)
_TERMINATING = (
    rf'^{_RESOURCE} "[^"]*" is forbidden: unable to create new content in namespace \S+ because it is being terminated$'
)
# The quantities are numbers of objects, or of what pods request; the API server writes nothing else of the object.
_QUOTA = rf'^{_RESOURCE} "[^"]*" is forbidden: exceeded quota: [a-z0-9.-]+(?:, \w+: [A-Za-z0-9=,./-]+){{3}}$'
_WEBHOOK = r'^admission webhook "[a-z0-9.-]+" denied the request(?=$|:| )'
_POLICY = (
    rf"^{_RESOURCE} \"[^\"]*\" is forbidden: ValidatingAdmissionPolicy '[^']*' with binding '[^']*' "
    r"denied request(?=$|:)"
)
_TOO_LARGE = (
    r"^(?:Internal error occurred: )?(?:rpc error: code = \w+ desc = )?(?:Request entity too large: limit is \d+|"
    r"etcdserver: request is too large|(?:grpc: )?trying to send message larger than max \(\d+ vs\. \d+\))$"
)
_TYPED_PATCH = r"^(failed to create typed patch object) \(([^;()]*); [^()]*\): (?:errors:)?\s*(\.[A-Za-z0-9_.\-]+): "
_CONVERSION = r"^failed to convert new object"
_BASE64 = r"illegal base64 data at input byte \d+"
_FIELD_ERROR = r'(unknown|duplicate) field "([A-Za-z0-9_.\-\[\]]+)"'


_CALLED = r'(failed: Post "https?://[^/"\s]{1,300}/)[^"?\s]+'


def without_webhook_path(message: str) -> str:
    """The message about a webhook that doesn't answer, without the path that only API servers may know."""
    return re.sub(_CALLED, r"\1...", message) if "failed: Post" in message else message


# As `%#v` of Go prints a struct, a map and a slice, and as go-cmp prints the difference of two structs.
_GO_VALUE = re.compile(
    r"(?<![^\s:,])&?(?:\*|\[\d*\]|map\[[\w.]+\])*(?:[a-z]\w*\.\w+|interface \{\}|string|bool|u?int\d*|float\d+)\{"
)
_GO_TOKEN = re.compile(r'\\.|["{}]', re.DOTALL)
_UNSTRUCTURED = "&value.valueUnstructured{"
_GO_NAMES = (("map[", "a mapping"), ("[]", "a list"), ("interface {}(nil)", "null"))


def without_go_values(message: str) -> str:
    """The message without values in the syntax of Go. A value that a manifest has in place of another type is shown in
    words.
    """
    shown, begin = "", 0
    while found := _GO_VALUE.search(message, begin):
        end = _end_of_go_value(message, found.end())
        if end is None:
            break
        value, shown = message[found.end() : end - 1].removeprefix("Value:"), shown + message[begin : found.start()]
        if found[0] == _UNSTRUCTURED:
            shown += next((name for start, name in _GO_NAMES if value.startswith(start)), value)
        elif message.startswith(": ", end):
            end += 2
        begin = end
    return (shown + message[begin:]).rstrip() if begin else message


def _end_of_go_value(message: str, begin: int) -> int | None:
    """Where the braces of a value end whose content begins there, None if they don't."""
    depth, quoted = 1, False
    for token in _GO_TOKEN.finditer(message, begin):
        if token[0] == '"':
            quoted = not quoted
        elif not quoted:
            depth += {"{": 1, "}": -1}.get(token[0], 0)
        if not depth:
            return token.end()
    return None


def redacted_cause(reason: str, message: str) -> str:
    """The message of one cause without the refused value."""
    label = _LABELS.get(reason, "refused")
    for ending in _FIXED_ENDINGS:
        if message.endswith(f": {ending}"):
            return f"{label}: {ending}"
    detail = FieldRefusal("", message).detail
    for beginning in _FIXED_BEGINNINGS:
        if detail.startswith(beginning):
            return f"{label}: {beginning}"
    return label


def cause_as_sent(field: str, message: str, sent: Mapping[str, Any]) -> str:
    """The message of one cause without a diff, and without the refused value unless the request sent that value."""
    first, refusal = message.partition("\n")[0], FieldRefusal(field, message)
    quoted = refusal.quoted
    if not quoted:
        return first
    try:
        value, given = decode_text(quoted), value_at(sent, parse_field(field, sent), _UNSENT)
        # A refused key of a mapping, and a refused label, are reported for the mapping.
        same = value == given or (isinstance(given, Mapping) and value in (*given, *given.values()))
    except ValueError:
        same = False
    return first if same else f"{refusal.label}: {refusal.detail}".partition("\n")[0]


_UNSENT = object()


def sent_body(body: bytes) -> Mapping[str, Any]:
    """The manifest in the body of a request, {} if it is none."""
    try:
        found = _decode(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_decode = decoder(Any)


def known_field(field: str, reason: str, sent: Mapping[str, Any]) -> str:
    """A field without names that are neither sent nor Kubernetes' own: admission may have turned content into a
    name.
    """
    if field.startswith("<"):
        return field  # of no field
    built_in = is_built_in(split_api_version(str(sent.get("apiVersion", "")))[0])
    path = parse_field(field, sent)
    at: Any = sent
    for depth, part in enumerate(path):
        at = value_at(at, (part,), _UNSENT)
        if at is not _UNSENT or isinstance(part, int):
            continue
        required = reason == "FieldValueRequired" and depth == len(path) - 1
        if not required and (not built_in or f"[{part}]" in field):
            return field_text(path[:depth])
    return field if "=" not in field else field_text(path)


def _is_safe(message: str) -> bool:
    """Whether the API server writes such a message without content of an object."""
    is_forbidden = re.match(_RBAC, message) or re.match(_TERMINATING, message) or re.match(_QUOTA, message)
    return bool(is_forbidden or re.match(_TOO_LARGE, message))


def redacted_message(code: int, message: str, causes: Iterable[tuple[str, str]], secret: SecretFields) -> str:
    """The message of a Status. `causes` are fields with their redacted messages, `secret` the fields with content."""
    # A webhook and a policy choose the code of their denials.
    if found := re.match(_WEBHOOK, message) or re.match(_POLICY, message):
        return f"{found[0]}: {HIDDEN}"
    if code in _SAFE_CODES or _is_safe(message):
        return message
    if found := re.match(_TYPED_PATCH, message):
        if not secret.covers(found[3]):
            return message
        return f"{found[1]} ({found[2]}): {secret.shown(found[3])}: {HIDDEN}"
    if re.match(_CONVERSION, message):
        detail = re.search(_BASE64, message)
        return f"failed to convert new object: {detail[0] if detail else HIDDEN}"
    safe = [f"{field}: {text}" if field else text for field, text in causes] or _field_errors(message, secret)
    return "; ".join(dict.fromkeys(safe)) if safe else HIDDEN


def redacted_warning(message: str, secret: SecretFields) -> str:
    """The text of a `Warning` header about an object with content in the fields `secret`."""
    safe = _field_errors(message, secret)
    return "; ".join(safe) if safe else HIDDEN


def _field_errors(message: str, secret: SecretFields) -> list[str]:
    """The unknown and duplicate fields that a message names."""
    return [f'{found[1]} field "{secret.shown(found[2])}"' for found in re.finditer(_FIELD_ERROR, message)]
