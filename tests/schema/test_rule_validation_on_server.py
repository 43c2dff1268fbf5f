"""Rules of CRDs (CEL) have offline the verdict and the message of the API server."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ssa_operator.schema.new_object import new_object
from tests.object_comparison import compare
from tests.operator.harness import Desk, definition

pytestmark = pytest.mark.cluster

TEXT: dict[str, Any] = {"type": "string", "maxLength": 40}
NUMBERS: dict[str, Any] = {"type": "array", "maxItems": 5, "items": {"type": "integer"}}
ENTRY: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": TEXT, "value": {"type": "integer"}, "on": {"type": "boolean"}},
}
FIELDS: dict[str, dict[str, Any]] = {
    "text": TEXT,
    "other": TEXT,
    "count": {"type": "integer"},
    "share": {"type": "number"},
    "flag": {"type": "boolean"},
    "either": {"x-kubernetes-int-or-string": True, "maxLength": 20},
    "numbers": NUMBERS,
    "shares": {"type": "array", "maxItems": 5, "items": {"type": "number"}},
    "texts": {"type": "array", "maxItems": 5, "items": TEXT},
    "tags": {"type": "array", "maxItems": 5, "items": TEXT, "x-kubernetes-list-type": "set"},
    "moreTags": {"type": "array", "maxItems": 5, "items": TEXT, "x-kubernetes-list-type": "set"},
    "entries": {
        "type": "array",
        "maxItems": 5,
        "items": ENTRY,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    },
    "labels": {"type": "object", "maxProperties": 5, "additionalProperties": TEXT},
    "inner": ENTRY,
    "nothing": TEXT | {"nullable": True},
    "moment": {"type": "string", "format": "date-time", "maxLength": 40},
    "day": {"type": "string", "format": "date", "maxLength": 40},
    "time": {"type": "string", "format": "duration", "maxLength": 40},
    "data": {"type": "string", "format": "byte", "maxLength": 40},
    "namespace": TEXT,
    "dashed-name": TEXT,
    "a__b": TEXT,
    "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
}
OBJECTS: list[dict[str, Any]] = [
    {},
    {
        "text": "Hello, World",
        "other": "é😀 x",
        "count": 7,
        "share": 2.5,
        "flag": True,
        "either": "10%",
        "numbers": [3, 1, 2],
        "shares": [1.5, 2],
        "texts": ["b", "a", "b"],
        "tags": ["x", "y"],
        "moreTags": ["y", "x"],
        "entries": [{"name": "one", "value": 1, "on": True}, {"name": "two", "value": 5}],
        "labels": {"a": "1", "b.c/d": "2"},
        "inner": {"name": "n", "value": -3},
        "nothing": None,
        "moment": "2024-02-29T12:30:15.250Z",
        "day": "2024-02-29",
        "time": "1h30m",
        "data": "aGVsbG8=",
        "namespace": "default",
        "dashed-name": "d",
        "a__b": "u",
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"a": 1}},
    },
    {"text": "10.0.0.1", "other": "1Gi", "count": -7, "share": 3, "either": 80, "numbers": [], "texts": ["1.2.3"]},
    {"text": "https://a.b:80/c%20d?x=1&x=2#f", "other": "2001:db8::/32", "count": 0, "numbers": [5, 5], "tags": []},
    {"text": "500m", "other": "v1.2.3-rc.1", "count": 2147483648, "numbers": [9223372036854775807, 1], "labels": {}},
    {"text": "", "other": "not-a b", "share": 0, "flag": False, "texts": [], "entries": [{"name": "two"}]},
]

RULES = r"""
self.text == 'Hello, World'
!has(self.count) || self.count > 0
has(self.inner.value)
has(self.inner) && has(self.inner.value) && self.inner.value < 0
self.?inner.?value.orValue(1) == 1
self.?count.hasValue()
self.?texts[?0].orValue('none') == 'b'
self.?labels['a'].orValue('x') == '1'
self.?count.optMap(c, c * 2).orValue(0) > 5
optional.of(1).value() + 1 == 2
optional.none().or(optional.of(3)).value() == 3
self.numbers.all(n, n > 1)
self.numbers.exists(n, n > 2)
self.numbers.exists_one(n, n == 5)
self.numbers.map(n, n * 2) == [6, 2, 4]
self.numbers.map(n, n > 1, n + 1) == [4, 3]
self.numbers.filter(n, n != 1).size() == 2
self.labels.all(k, k.startsWith('a'))
self.numbers.sum() == 6
self.numbers.max() == 3
self.numbers.min() >= 1
self.numbers.isSorted()
self.texts.isSorted()
self.texts.indexOf('b') == 0 && self.texts.lastIndexOf('b') == 2
self.shares.sum() > 3.9
self.texts.join('-') == 'b-a-b'
!has(self.texts) || self.texts.distinct().size() == 2
!has(self.numbers) || self.numbers.sort() == [1, 2, 3]
self.numbers.reverse()[0] == 2
self.numbers.slice(0, 1) == [3]
!has(self.entries) || self.entries.sortBy(e, e.name)[0].name == 'one'
[[1], [2, 3]].flatten() == [1, 2, 3]
lists.range(3) == [0, 1, 2]
self.text.size() == 12
size(self.other) == 4
self.text.contains('World')
self.text.startsWith('Hello') && self.text.endsWith('World')
self.text.matches('^[A-Z][a-z]+')
self.text.matches('^(?i)hello')
self.text.matches(r'\d+')
self.text.find('[a-z]+') == 'ello'
self.text.findAll('[a-z]+') == ['ello', 'orld']
self.text.findAll('[a-z]', 2).size() == 2
self.text.lowerAscii() == 'hello, world'
self.text.upperAscii() == 'HELLO, WORLD'
self.text.replace('l', 'L') == 'HeLLo, WorLd'
self.text.replace('l', 'L', 1) == 'HeLlo, World'
self.text.split(', ') == ['Hello', 'World']
self.text.split('l', 2) == ['He', 'lo, World']
self.text.substring(7) == 'World'
self.text.substring(0, 5) == 'Hello'
self.text.charAt(1) == 'e'
self.text.indexOf('o') == 4 && self.text.lastIndexOf('o') == 8
' a '.trim() == 'a'
'%s is %d'.format([self.text, self.count]) == 'Hello, World is 7'
'%.2f'.format([self.share]) == '2.50'
strings.quote('a"b') == '"a\\"b"'
self.text + '!' == 'Hello, World!'
self.text < 'J'
self.count + 1 == 8
self.count * 9223372036854775807 > 0
self.count / 2 == 3
self.count % 4 == 3
self.count % 4 == -3
10 / self.count > 1
-self.count == -7
dyn(self.count) == 7.0
self.count < 7.5
self.share > 2
self.share * 2.0 == 5.0
double(self.count) / 2.0 == 3.5
int(self.share) == 2
string(self.count) == '7'
string(self.share) == '2.5'
string(self.flag) == 'true'
int(self.text) == 1
double('1.5') == 1.5
bool('true')
uint(3) == 3u
self.flag ? self.count == 7 : self.count == 0
!self.flag
self.either == '10%'
type(self.either) == string ? self.either.matches('^\\d+%$') : self.either > 79
type(self.either) == int
string(self.either) in ['10%', '80']
self.either > 5
self.tags == self.moreTags
self.tags == ['y', 'x']
self.tags + self.moreTags == ['x', 'y']
(self.tags + self.moreTags).size() == 2
'x' in self.tags
self.entries == self.entries
self.entries.exists(e, e.name == 'two' && e.value == 5)
self.entries.all(e, has(e.value) || !has(e.on))
self.entries.filter(e, has(e.on)).map(e, e.name) == ['one']
self.entries[0].name == 'one'
self.entries[5].name == 'one'
self.numbers[1] == 1
self.numbers == [3, 1, 2]
self.labels['a'] == '1'
self.labels['zz'] == '1'
'b.c/d' in self.labels
self.labels.size() == 2
self.labels == {'a': '1', 'b.c/d': '2'}
self.inner == self.inner
self.inner.name == 'n'
self.inner.value == -3 || self.inner.on
self.inner.on || self.inner.value == -3
dyn(self.nothing) == null
has(self.nothing)
!has(self.nothing) || dyn(self.nothing) == null
self.moment < timestamp('2024-03-01T00:00:00Z')
self.moment.getFullYear() == 2024 && self.moment.getMonth() == 1 && self.moment.getDate() == 29
self.moment.getHours() == 12 && self.moment.getMinutes() == 30 && self.moment.getSeconds() == 15
self.moment.getMilliseconds() == 250 && self.moment.getDayOfWeek() == 4 && self.moment.getDayOfYear() == 59
self.moment + duration('24h') > timestamp('2024-03-01T00:00:00Z')
self.moment - self.day == duration('12h30m15.25s')
string(self.moment) == '2024-02-29T12:30:15.25Z'
string(self.day) == '2024-02-29T00:00:00Z'
self.time == duration('90m')
self.time > duration('1h') && self.time.getMinutes() == 90 && self.time.getHours() == 1
string(self.time) == '5400s'
self.data == b'hello'
string(self.data) == 'hello' && self.data.size() == 5
self.__namespace__ == 'default'
self.dashed__dash__name == 'd'
self.a__underscores__b == 'u'
self.pod.kind == 'Pod' && self.pod.metadata.name == 'p'
has(self.pod.metadata.generateName)
isURL(self.text)
url(self.text).getHost() == 'a.b:80' && url(self.text).getHostname() == 'a.b' && url(self.text).getPort() == '80'
url(self.text).getScheme() == 'https' && url(self.text).getEscapedPath() == '/c%20d'
url(self.text).getQuery()['x'] == ['1', '2']
isQuantity(self.other)
quantity(self.other).isGreaterThan(quantity('1000Mi'))
quantity('1.5').add(quantity('500m')).compareTo(quantity('2')) == 0
quantity('2').sub(1).asInteger() == 1
quantity('500m').isInteger()
sign(quantity('-1')) == -1
quantity('1k').asApproximateFloat() == 1000.0
isIP(self.text)
ip(self.text).family() == 4
ip('127.0.0.1').isLoopback() && ip('10.0.0.1').isGlobalUnicast() && ip('0.0.0.0').isUnspecified()
ip.isCanonical('2001:DB8::1')
isCIDR(self.other)
cidr(self.other).containsIP('2001:db8::1') && cidr(self.other).prefixLength() == 32
cidr('10.0.0.5/8').masked() == cidr('10.0.0.0/8')
cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')
string(cidr('10.0.0.5/8').ip()) == '10.0.0.5'
!format.dns1123Label().validate(self.text).hasValue()
format.dns1123Label().validate(self.text).orValue([]).size() == 0
!format.named('qualifiedName').value().validate(self.other).hasValue()
self.metadata.name.startsWith('sample')
self.kind == 'Thing' && self.apiVersion.endsWith('/v1')
{'a': 1, 'b': 2}.exists(k, k == 'b')
{'a': 1}['a'] == 1
"a\tb" == 'a\u0009b'
'''a\nb'''.contains('\n')
0x1F == 31 && 1e3 == 1000.0 && .5 < 1.0
""".strip()

UNCHECKED = r"""
self.numbers.all(i, n, i < n)
self.numbers.exists(i, n, i == n)
self.numbers.transformList(i, n, i + n) == [3, 2, 4]
self.labels.transformMap(k, v, v + '!')['a'] == '1!'
self.labels.exists(k, v, v == '2')
isSemver('1.2.3-rc.1')
isSemver(self.other)
isSemver(self.other, true)
semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.2.3').minor() == 2
semver('1.0.0-alpha').compareTo(semver('1.0.0')) == -1
sets.contains([1, 2, 3], self.numbers)
sets.equivalent(self.numbers, [1, 2, 3])
sets.intersects(self.numbers, [5])
""".strip()
"""Rules that need a library or a macro which is not known offline."""


def crd(group: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """A CRD with rules for the whole object."""
    found = definition("things", group, "Thing")
    spec: dict[str, Any] = {"type": "object", "properties": FIELDS, "x-kubernetes-validations": []}
    root = [rule for rule in rules if "self.metadata" in rule["rule"] or "self.kind" in rule["rule"]]
    spec["x-kubernetes-validations"] = [rule for rule in rules if rule not in root]
    schema = {"type": "object", "properties": {"spec": spec}, "x-kubernetes-validations": root}
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    return found


@pytest.mark.usefixtures("current_kubernetes")
async def test_every_expression_has_the_verdict_of_the_api_server(desk: Desk) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    found = crd(group, [{"rule": rule} for rule in RULES.splitlines()])
    await desk.define(found)
    try:
        bodies = [
            {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "sample"}, "spec": spec}
            for spec in OBJECTS
        ]
        compared = await compare(desk.client, desk.namespace, found, "v1", bodies)
    finally:
        await desk.delete("crd", f"things.{group}", wait=False)
    assert not compared.differences, "\n".join(compared.differences)
    assert not compared.unchecked


@pytest.mark.usefixtures("current_kubernetes")
async def test_a_rule_that_is_not_known_offline_is_valid_in_a_crd_and_is_reported_as_not_checked(desk: Desk) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    rules = UNCHECKED.splitlines()
    found = crd(group, [{"rule": rule} for rule in rules])
    await desk.define(found)
    await desk.delete("crd", f"things.{group}", wait=False)
    body = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "sample"}, "spec": OBJECTS[1]}
    created = new_object(body, found, "v1")
    assert created.errors == ()
    assert len(created.unchecked) == len(rules)


def _rule(rule: str, **more: Any) -> list[dict[str, Any]]:
    return [{"rule": rule, **more}]


PLACES: dict[str, dict[str, Any]] = {
    "message": TEXT | {"x-kubernetes-validations": _rule("self != 'x'", message="  is not x  ")},
    "expression": TEXT
    | {"x-kubernetes-validations": _rule("self != 'x'", message="fixed", messageExpression="'is ' + self")},
    "empty": TEXT | {"x-kubernetes-validations": _rule("self != 'x'", message="fixed", messageExpression="' '")},
    "fails": TEXT
    | {"x-kubernetes-validations": _rule("self != 'x'", messageExpression="'a'.substring(int(self.size()) + 5)")},
    "forbidden": TEXT | {"x-kubernetes-validations": _rule("self != 'x'", message="no", reason="FieldValueForbidden")},
    "required": TEXT | {"x-kubernetes-validations": _rule("self != 'x'", message="no", reason="FieldValueRequired")},
    "twice": TEXT | {"x-kubernetes-validations": _rule("self != 'x'", message="no", reason="FieldValueDuplicate")},
    "path": ENTRY | {"x-kubernetes-validations": _rule("self.name != 'x'", message="no", fieldPath=".name")},
    "map": {
        "type": "object",
        "maxProperties": 3,
        "additionalProperties": TEXT | {"x-kubernetes-validations": _rule("self != 'x'")},
        "x-kubernetes-validations": _rule("!('a.b' in self)", message="no", fieldPath="['a.b']"),
    },
    "items": {
        "type": "array",
        "maxItems": 3,
        "items": TEXT | {"x-kubernetes-validations": _rule("self != 'x'")},
        "x-kubernetes-validations": _rule("self.size() < 2", message="at most one"),
    },
    "old": TEXT | {"x-kubernetes-validations": _rule("self == oldSelf", message="is immutable")},
    "optional": TEXT
    | {
        "x-kubernetes-validations": _rule(
            "oldSelf.hasValue() || self != 'x'", message="not at the beginning", optionalOldSelf=True
        )
    },
    "count": {"type": "integer", "maximum": 5, "x-kubernetes-validations": _rule("self != 3", message="is not 3")},
}


@pytest.mark.usefixtures("current_kubernetes")
async def test_every_message_is_that_of_the_api_server(desk: Desk) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    found = definition("things", group, "Thing")
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": PLACES}}}
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    values: dict[str, Any] = {name: "x" for name, place in PLACES.items() if place["type"] == "string"}
    values |= {"path": {"name": "x"}, "map": {"a.b": "x", "c": "x"}, "items": ["y", "x"], "count": 3}
    specs = [values, *({name: value} for name, value in values.items()), {"count": 6, "message": "x"}, {"items": []}]
    await desk.define(found)
    try:
        own = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "sample"}}
        compared = await compare(desk.client, desk.namespace, found, "v1", [own | {"spec": spec} for spec in specs])
    finally:
        await desk.delete("crd", f"things.{group}", wait=False)
    assert not compared.differences, "\n".join(compared.differences)
    assert (compared.accepted, compared.refused) == (2, len(specs) - 2)
