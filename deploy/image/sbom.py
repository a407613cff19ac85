"""Print a CycloneDX SBOM of the Python packages with the image's Debian packages added.

    python sbom.py PYTHON_SBOM.json STATUS_FOLDER > SBOM.json

STATUS_FOLDER has one control file per Debian package. Scanners of images look there (/var/lib/dpkg/status.d) for
packages that were unpacked without dpkg. The command runs in the image's build stage, with the packages of tools.lock.
"""

from __future__ import annotations

import json
import sys
from email.parser import HeaderParser
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL


def debian_component(control: str) -> Component:
    """The component of one package, with the purl that scanners match with Debian's security advisories."""
    fields = HeaderParser().parsestr(control)
    name, version = fields["Package"], fields["Version"]
    purl = PackageURL("deb", "debian", name, version, {"arch": fields["Architecture"]})
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        purl=purl,
        bom_ref=purl.to_string(),
        description=fields["Description"].splitlines()[0],
    )


def main(python_sbom: Path, status: Path) -> int:
    bom = Bom.from_json(json.loads(python_sbom.read_text()))  # type: ignore[attr-defined]
    bom.components.update(debian_component(file.read_text()) for file in status.iterdir())
    bom.serial_number = uuid5(NAMESPACE_URL, "\n".join(sorted(each.bom_ref.value or "" for each in bom.components)))
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        print(wrong, file=sys.stderr)
        return 1
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
