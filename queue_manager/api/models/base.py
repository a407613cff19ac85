"""Building blocks of the API models: field types, and what only a CRD can express.

A model is an ordinary pydantic model. What pydantic cannot express (list types, CEL rules, formats) is attached with
`Extra`, which adds keys to the JSON schema of the annotated type. `queue_manager.api.crd_generation` converts the
result to a structural schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

VALIDATIONS = "x-kubernetes-validations"


class ApiModel(BaseModel):
    """Snake case in Python, camel case on the wire; unknown fields are errors."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        use_attribute_docstrings=True,
        frozen=True,
    )


class Extra:
    """Adds keys to the JSON schema of the annotated type."""

    def __init__(self, **keys: Any) -> None:
        self.keys = {name.replace("_", "-") if name.startswith("x_") else name: value for name, value in keys.items()}

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        schema.update(self.keys)
        return schema


def list_map(*keys: str) -> Extra:
    """A list whose items are identified by these keys."""
    return Extra(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=list(keys))


ATOMIC = Extra(x_kubernetes_list_type="atomic")
ATOMIC_MAP = Extra(x_kubernetes_map_type="atomic")
SET = Extra(x_kubernetes_list_type="set")
DEFAULT_EMPTY = Extra(default={})


@dataclass(frozen=True, slots=True)
class CelRule:
    """A CEL rule. `field_path`: the field of the error, if it is not the one that carries the rule."""

    rule: str
    message: str
    field_path: str = ""

    def as_dict(self) -> dict[str, str]:
        """The rule as in `x-kubernetes-validations`."""
        entry = {"message": self.message, "rule": self.rule}
        return {**entry, "fieldPath": self.field_path} if self.field_path else entry


def cel(*rules: CelRule) -> dict[str, Any]:
    """CEL rules of a model, for `ConfigDict(json_schema_extra=cel(...))`."""
    return {VALIDATIONS: [rule.as_dict() for rule in rules]}


def checked(*rules: CelRule) -> Extra:
    """Return the annotation that gives a field these CEL rules: `Annotated[str, checked(IMMUTABLE)]`."""
    return Extra(**{"x_kubernetes_validations": [rule.as_dict() for rule in rules]})


IMMUTABLE = CelRule("self == oldSelf", "field is immutable")

Name = Annotated[str, Field(max_length=253, pattern=DNS_SUBDOMAIN)]
PodSetName = Annotated[str, Field(max_length=63, pattern=DNS_LABEL)]
CheckName = Annotated[str, Field(min_length=1, max_length=316)]
Int32 = Annotated[int, Extra(format="int32")]
Int64 = Annotated[int, Extra(format="int64")]
Count = Annotated[int, Field(ge=0), Extra(format="int32")]
Positive = Annotated[int, Field(ge=1), Extra(format="int32")]
Time = Annotated[str, Extra(format="date-time")]


def _quantity(pattern: str, **bounds: int) -> WithJsonSchema:
    types = [{"type": "integer"}, {"type": "string"}]
    return WithJsonSchema({"anyOf": types, "pattern": pattern, "x-kubernetes-int-or-string": True, **bounds})


Quantity = Annotated[int | str, _quantity(QUANTITY)]
NotNegative = Annotated[int | str, _quantity(QUANTITY.replace(r"(\+|-)?", r"\+?", 1), minimum=0)]
Quantities = dict[str, Quantity]
PodTemplate = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "metadata": {
                    "description": "Labels and annotations of the pods; nothing else is allowed here.",
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "spec": {
                    "description": "The pod spec, as in a Job's template.",
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
            "x-kubernetes-preserve-unknown-fields": True,
        }
    ),
]


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`; priority 1 is shown with -o wide only."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    priority: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The column as in `additionalPrinterColumns`."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            column["description"] = self.description
        if self.priority:
            column["priority"] = self.priority
        return column


class CustomKind(ApiModel):
    """A root object. The class variables are the parts of a CRD outside the schema."""

    plural: ClassVar[str]
    namespaced: ClassVar[bool] = False
    short_names: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[tuple[PrinterColumn, ...]] = ()
    selectable: ClassVar[tuple[str, ...]] = ()

    api_version: str | None = None
    """The API group and version of this object."""

    kind: str | None = None
    """The kind of this object."""

    metadata: Annotated[dict[str, Any], WithJsonSchema({"type": "object"})] | None = None
    """Standard object metadata."""
