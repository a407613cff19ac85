"""The check of the KueueConfig by Helm: `helm install`, `template` and `lint` refuse what its JSON schema does.

The configuration is a text in the values, as in Kueue's chart, so values.schema.json cannot describe it. The chart
therefore has the schema as a file of its own, and a template that reads the text and compares it with that: types,
fields, enumerations, patterns and bounds, which are all that the schema uses. Rules that relate several values are left
to the manager, as with an editor. BEHAVIOUR.md#q175-the-configuration-in-a-helm-chart.

A configuration without such mistakes is compared with the fields that are fixed in an installation, as
`sluice install` does: `fixed_config_fields`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic.alias_generators import to_camel

from queue_manager.configuration.config_field_types import DURATION, V1BETA1
from queue_manager.configuration.history_section import STORE
from queue_manager.configuration.value_errors import WANTED
from queue_manager.configuration.version_defaults import GROUP
from queue_manager.installation.fixed_config_fields import (
    CERTIFICATES,
    FIXED,
    LEFT_OUT,
    MOUNTED_CERTIFICATES,
    OWN_CERTIFICATES,
    FixedField,
)
from queue_manager.installation.template import CONFIG

SCHEMA_FILE = "kueue_config.schema.json"
LINES = "sluice install --config FILE, with the same settings, names the lines"
PATTERNS = {DURATION: WANTED["duration"], STORE: WANTED["store_url"]}
"""What a text must be, by the pattern that it must match."""

# A line per mistake. `helm lint` only logs what `fail` says, so that a text follows that is no YAML.
_CHECK = """\
{{- define "sluice.jsonType" -}}
{{- if kindIs "invalid" . }}null
{{- else if kindIs "map" . }}object
{{- else if kindIs "slice" . }}array
{{- else if kindIs "bool" . }}boolean
{{- else if kindIs "string" . }}string
{{- else if eq (floor .) (float64 .) }}integer
{{- else }}number
{{- end }}
{{- end }}
{{- define "sluice.configMistakes" -}}
{{- $schema := .schema }}
{{- $value := .value }}
{{- $path := .path }}
{{- $type := include "sluice.jsonType" $value | trim }}
{{- $types := kindIs "string" $schema.type | ternary (list $schema.type) ($schema.type | default list) }}
{{- if and $types (not (has $type $types)) (not (and (eq $type "integer") (has "number" $types))) }}
{{ $path }}: {{ $type }} instead of {{ without $types "null" | join " or " }}
{{- else }}
{{- if and $schema.enum (ne $type "null") (not (has $value $schema.enum)) }}
{{ $path }}: {{ $value | toJson }} is not one of {{ without $schema.enum nil | join ", " }}
{{- end }}
{{- if and $schema.const (ne $schema.const $value) }}
{{ $path }}: {{ $value | toJson }} instead of {{ $schema.const }}
{{- end }}
{{- if and $schema.pattern (eq $type "string") }}
{{- if not (regexMatch $schema.pattern $value) }}
{{ $path }}: {{ $value | toJson }} is not allowed; must be {{ get (fromJson `<patterns>`) $schema.pattern }}
{{- end }}
{{- end }}
{{- if has $type (list "integer" "number") }}
{{- if and (hasKey $schema "minimum") (lt (float64 $value) (float64 $schema.minimum)) }}
{{ $path }}: {{ $value }} is less than {{ $schema.minimum }}
{{- end }}
{{- if and (hasKey $schema "maximum") (gt (float64 $value) (float64 $schema.maximum)) }}
{{ $path }}: {{ $value }} is greater than {{ $schema.maximum }}
{{- end }}
{{- end }}
{{- if eq $type "object" }}
{{- range $schema.required }}
{{- if not (hasKey $value .) }}
{{ list $path . | compact | join "." }}: is required
{{- end }}
{{- end }}
{{- range $name, $child := $value }}
{{- $inner := list $path $name | compact | join "." }}
{{- if hasKey ($schema.properties | default dict) $name }}
{{- include "sluice.configMistakes" (dict "schema" (get $schema.properties $name) "value" $child "path" $inner) }}
{{- else if kindIs "map" $schema.additionalProperties }}
{{- include "sluice.configMistakes" (dict "schema" $schema.additionalProperties "value" $child "path" $inner) }}
{{- else if kindIs "bool" $schema.additionalProperties }}
{{- if not $schema.additionalProperties }}
{{ $inner }}: unknown field
{{- end }}
{{- end }}
{{- end }}
{{- else if and (eq $type "array") $schema.items }}
{{- range $i, $child := $value }}
{{- $inner := printf "%s[%d]" $path $i }}
{{- include "sluice.configMistakes" (dict "schema" $schema.items "value" $child "path" $inner) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $config := fromYaml .Values.<config> }}
{{- $schemas := .Files.Get "<schema>" | fromJson }}
{{- $isOld := eq (toString $config.apiVersion) "<old>" }}
{{- $source := .Values.certificates.source }}
{{- $mistakes := "" }}
{{- if kindIs "string" $config.Error }}
{{- $mistakes = printf "is not YAML: %s" $config.Error }}
{{- else }}
{{- $schema := $isOld | ternary $schemas.then $schemas.else }}
{{- $mistakes = include "sluice.configMistakes" (dict "schema" $schema "value" $config "path" "") | trim }}
{{- if not $mistakes }}
{{- $said := list }}
{{- $fixed := fromJson `<fixed>` }}
{{- range concat $fixed.All (get $fixed $source) }}
{{- $section := get $config .section | default dict }}
{{- if and (hasKey $section .field) (not (kindIs "invalid" (get $section .field))) }}
{{- $value := get $section .field | toString }}
{{- if not (regexMatch (printf "^(?:%s)$" .pattern) $value) }}
{{- $said = append $said (printf "%s.%s: %s; an installation has %s" .section .field $value .wanted) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (ne $source "Managed") (hasKey $config "internalCertManagement") }}
{{- if ne (toString (dig "enable" "true" (get $config "internalCertManagement" | default dict))) "false" }}
{{- $said = append $said (printf "<enable>: not false, with certificates.source %s; <left out>" $source) }}
{{- end }}
{{- end }}
{{- $mistakes = join "\\n" $said }}
{{- end }}
{{- end }}
{{- if $mistakes }}
{{- $lines := printf "%s\\n<lines>" $mistakes | splitList "\\n" | join "\\n  " }}
{{- fail (printf "<config>:\\n  %s" $lines) }}
<config>: {{ $lines | toJson }} [
{{- end }}
"""


def check_template() -> str:
    """Return the template that refuses a configuration with mistakes. It renders nothing."""
    names = {
        "<config>": CONFIG,
        "<schema>": SCHEMA_FILE,
        "<old>": f"{GROUP}/{V1BETA1}",
        "<patterns>": _json(PATTERNS),
        "<fixed>": _json(_fixed()),
        "<enable>": f"{to_camel(CERTIFICATES)}.enable",
        "<left out>": LEFT_OUT,
        "<lines>": LINES,
    }
    text = _CHECK
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def _fixed() -> dict[str, list[dict[str, str]]]:
    """Return the fixed fields by the value of `certificates.source` with which they are fixed."""
    mounted = _fields(MOUNTED_CERTIFICATES)
    own = _fields(OWN_CERTIFICATES)
    return {"All": _fields(FIXED), "Managed": own, "Secret": mounted, "CertManager": mounted}


def _fields(fields: Sequence[FixedField]) -> list[dict[str, str]]:
    return [
        {
            "section": to_camel(each.section),
            "field": to_camel(each.field),
            "pattern": each.pattern,
            "wanted": f"{each.wanted}; {each.remedy}",
        }
        for each in fields
    ]


def _json(value: object) -> str:
    """Return JSON for a raw text of a Go template, which has no backquote."""
    text = json.dumps(value, ensure_ascii=False)
    if "`" in text:
        raise ValueError(f"a raw text of a template cannot contain a backquote: {text}")
    return text
