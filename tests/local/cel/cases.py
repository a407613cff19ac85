"""Rules about one value, each evaluated on its own copy of it, and the definition that contains them."""

from __future__ import annotations

from typing import Any

Json = Any
VALUE: Json = {
    "i": 3,
    "n": 2,
    "s": "hello-World",
    "b": True,
    "list": [3, 1, 2],
    "words": ["b", "a", "b"],
    "labels": {"x": "1", "y": "2"},
    "items": [{"name": "a", "value": 1}, {"name": "b"}],
    "tags": ["p", "q"],
    "when": "2026-01-02T03:04:05Z",
    "wait": "1h30m",
    "either": "50%",
    "amount": "1500m",
    "namespace": "ns",
    "a-b": 1,
}
_WORD: Json = {"type": "string", "maxLength": 40}
_ITEM: Json = {"type": "object", "required": ["name"], "properties": {"name": _WORD, "value": {"type": "integer"}}}
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "n": {"type": "number"},
        "s": _WORD,
        "b": {"type": "boolean"},
        "absent": {"type": "integer"},
        "list": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
        "words": {"type": "array", "maxItems": 5, "items": _WORD},
        "labels": {"type": "object", "maxProperties": 4, "additionalProperties": _WORD},
        "items": {
            "type": "array",
            "maxItems": 5,
            "items": _ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "tags": {"type": "array", "maxItems": 5, "items": _WORD, "x-kubernetes-list-type": "set"},
        "when": {"type": "string", "format": "date-time", "maxLength": 40},
        "wait": {"type": "string", "format": "duration", "maxLength": 40},
        "either": {"x-kubernetes-int-or-string": True},
        "amount": _WORD,
        "namespace": _WORD,
        "a-b": {"type": "integer"},
    },
}
RULES = """
self.i == 3
self.i > 3
has(self.absent)
!has(self.absent) || self.absent > 0
self.absent > 0
self.absent > 0 || self.b
self.b && self.absent > 0
self.absent > 0 && !self.b
self.list.all(x, x > 0)
self.list.all(x, x > 1)
self.list.exists(x, x == 2)
self.list.exists_one(x, x > 2)
self.list.map(x, x * 2) == [6, 2, 4]
self.list.filter(x, x > 1).size() == 2
self.list[7] == 1
self.list[0] / 0 == 1
self.list[0] % 2 == 1
-7 / 2 == -3
-7 % 3 == -1
9223372036854775807 + self.i > 0
self.list.sum() == 6
self.list.max() == 3 && self.list.min() == 1
self.list.isSorted()
self.words.indexOf('b') == 0 && self.words.lastIndexOf('b') == 2
self.s.size() == 11 && size(self.words) == 3
self.s.matches('^hello-[A-Z]')
self.s.find('[A-Z]') == 'W'
self.s.findAll('[a-z]+') == ['hello', 'orld']
self.s.startsWith('hello') && self.s.endsWith('World') && self.s.contains('-')
self.s.lowerAscii() == 'hello-world' && self.s.upperAscii() == 'HELLO-WORLD'
self.s.split('-') == ['hello', 'World']
self.s.replace('l', 'L') == 'heLLo-WorLd'
self.s.substring(6) == 'World' && self.s.substring(0, 5) == 'hello'
self.s.charAt(0) == 'h' && self.s.indexOf('-') == 5
' x '.trim() == 'x'
self.words.join(',') == 'b,a,b'
'x' in self.labels && !('z' in self.labels)
self.labels.all(k, self.labels[k] != '')
self.labels.exists(k, k == 'y' && self.labels[k] == '2')
self.labels['z'] == '1'
has(self.labels.x) && self.labels.x == '1'
self.items.exists(c, c.name == 'a' && c.value == 1)
self.items.all(c, c.value > 0)
self.items.all(c, !has(c.value) || c.value > 0)
self.tags == ['q', 'p']
self.words == ['b', 'b', 'a']
self.s in ['hello-World', 'x']
self.i in [1, 2]
self.n == 2.0
self.n < 1.5
self.n > self.i
type(self.i) == int && type(self.s) == string
string(self.i) == '3' && int('4') == 4 && double('1.5') == 1.5
self.i > 2 ? self.b : false
self.when > timestamp('2026-01-01T00:00:00Z')
self.when.getFullYear() == 2026 && self.when.getMonth() == 0 && self.when.getHours() == 3
self.wait == duration('90m') && self.wait < duration('2h')
self.when + self.wait > self.when
type(self.either) == string ? self.either == '50%' : self.either == 50
self.either > 3
quantity(self.amount).isGreaterThan(quantity('1'))
quantity(self.amount).compareTo(quantity('1.5')) == 0
quantity(self.amount) == quantity('1500m')
quantity(self.amount).isInteger()
isQuantity(self.amount) && !isQuantity('1.5.5')
quantity('x').isInteger()
self.__namespace__ == 'ns'
self.a__dash__b == 1
self.?absent.orValue(7) == 7
self.?i.hasValue()
self.?labels.x.orValue('') == '1'
self.list + [4] == [3, 1, 2, 4]
dyn(self.i) == 3u
sets.contains([1, 2, 3], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])
isIP('10.0.0.1') && ip('10.0.0.1').family() == 4
cidr('10.0.0.0/8').containsIP('10.2.3.4')
isURL('https://example.com:80/path') && url('https://example.com:80/path').getHostname() == 'example.com'
!format.dns1123Label().validate('Not_A').hasValue()
format.dns1123Label().validate('ok-1').hasValue()
r'\\d' == '\\\\d' && "a\\tb".size() == 3
self.list.all(i, x, i < 3 && x > 0)
"""


def rules() -> list[str]:
    return RULES.strip().splitlines()


def definition() -> Json:
    """A custom kind with a field per rule."""
    properties = {
        f"p{index:03}": {**SCHEMA, "x-kubernetes-validations": [{"rule": rule}]} for index, rule in enumerate(rules())
    }
    spec = {"type": "object", "properties": properties}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ruled.demo.example.com"},
        "spec": {
            "group": "demo.example.com",
            "scope": "Namespaced",
            "names": {"plural": "ruled", "singular": "ruled", "kind": "Ruled"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }
            ],
        },
    }


def object_with_values() -> Json:
    """An object with the value in every field."""
    spec = {f"p{index:03}": VALUE for index in range(len(rules()))}
    return {"apiVersion": "demo.example.com/v1", "kind": "Ruled", "metadata": {"name": "all"}, "spec": spec}


def answers(body: Json) -> dict[str, str]:
    """Rule -> the message of the server; absent if the rule holds."""
    causes = {cause["field"]: cause["message"] for cause in (body.get("details") or {}).get("causes") or []}
    return {rule: causes.get(f"spec.p{index:03}", "") for index, rule in enumerate(rules())}
