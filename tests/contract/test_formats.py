"""String formats in schemas of custom kinds: both servers accept the same texts."""

from __future__ import annotations

from tests.contract.bodies import definition, thing, things
from tests.contract.session import Session

LONG = "a" * 64
TEXTS = {
    "bsonobjectid": ["507f1f77bcf86cd799439011", "507F1f77bcf86cd799439011", "x"],
    "uri": ["http://x/y", "x", "/a", "a:b", "http:// x", "", "http://[::1", "#f", "//x", "%zz", "http://a b/"],
    "email": [
        "a@b",
        "a@b.c",
        "a",
        "A <a@b.c>",
        "a@",
        "@b",
        "a b@c.d",
        '"a b"@c.d',
        "a@b.c,d@e.f",
        "a.@b.c",
        "(c)a@b.c",
        "a@[1.2.3.4]",
        "ü@b.c",
    ],
    "hostname": ["a", "a.b", "-a", "a_b", "A.b", "a.", " ", "1", "1.1.1.1", LONG, ".".join([LONG[:60]] * 5), "ü.de"],
    "ipv4": ["1.1.1.1", "01.1.1.1", "1.1.1", "::1", "1.1.1.256", "::ffff:1.1.1.1"],
    "ipv6": ["::1", "1.1.1.1", "::ffff:1.1.1.1", "fe80::1%eth0", "zz"],
    "cidr": ["10.0.0.0/8", "10.0.0.1/8", "10.0.0.0/33", "::/0", "x", "10.0.0.0", "010.0.0.0/8", "10.0.0.0/08"],
    "mac": [
        "00:11:22:33:44:55",
        "00-11-22-33-44-55",
        "0011.2233.4455",
        "00:11:22:33:44",
        "x",
        "00:11:22:33:44:55:66:77",
        "001122334455",
        "00:11:22:33:44:GG",
        "0:1:2:3:4:5",
        "00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01",
    ],
    "uuid": [
        "9f1b2e8e-3a4b-4c5d-8e9f-0a1b2c3d4e5f",
        "9F1B2E8E3A4B4C5D8E9F0A1B2C3D4E5F",
        "x",
        "{9f1b2e8e-3a4b-4c5d-8e9f-0a1b2c3d4e5f}",
        "urn:uuid:9f1b2e8e-3a4b-4c5d-8e9f-0a1b2c3d4e5f",
        "9f1b2e8e-3a4b4c5d-8e9f-0a1b2c3d4e5f",
    ],
    "uuid3": ["9f1b2e8e-3a4b-3c5d-8e9f-0a1b2c3d4e5f", "9f1b2e8e-3a4b-4c5d-8e9f-0a1b2c3d4e5f"],
    "uuid4": [
        "9f1b2e8e-3a4b-4c5d-8e9f-0a1b2c3d4e5f",
        "9f1b2e8e-3a4b-4c5d-1e9f-0a1b2c3d4e5f",
        "9f1b2e8e3a4b4c5d8e9f0a1b2c3d4e5f",
    ],
    "uuid5": ["9f1b2e8e-3a4b-5c5d-8e9f-0a1b2c3d4e5f", "9f1b2e8e-3a4b-4c5d-8e9f-0a1b2c3d4e5f"],
    "isbn": ["0306406152", "9780306406157", "x", "0-306-40615-2", "0306406153"],
    "isbn10": ["0306406152", "080442957X", "9780306406157"],
    "isbn13": ["9780306406157", "0306406152", "978-0-306-40615-7", "9780306406158"],
    "creditcard": ["4111111111111111", "4111-1111-1111-1111", "1"],
    "ssn": ["123-45-6789", "123456789", "x", " 123 45 6789"],
    "hexcolor": ["#fff", "fff", "#FFFFFF", "#ff", "x", "#ffff"],
    "rgbcolor": ["rgb(0,0,0)", "rgb(256,0,0)", "rgb( 1, 2, 3 )", "x", "rgb(10%,1%,1%)"],
    "byte": ["YQ==", "YQ", "x!", "", "YQ==\n", "_-==", "YWI=", "YQ= =", "ab cd"],
    "password": ["x", ""],
    "date": [
        "2026-01-01",
        "2026-1-1",
        "2026-02-30",
        "2026-01-01T00:00:00Z",
        "",
        " 2026-01-01",
        "0000-01-01",
        "2024-02-29",
        "2023-02-29",
    ],
    "duration": [
        "5s",
        "1h2m",
        "5",
        "1 day",
        "1d",
        "5 s",
        "-5s",
        "1w",
        "1.5h",
        "",
        "1us",
        "1µs",
        "0",
        "1ms2us",
        "2 weeks",
        "1 Hour",
    ],
    "date-time": [
        "2026-01-01T00:00:00Z",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00+01:00",
        "2026-01-01",
        "2026-01-01T00:00:00.123456789Z",
        "2026-01-01t00:00:00z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T23:59:60Z",
        "2026-13-01T00:00:00Z",
        "2026-01-01T00:00Z",
        "2026-01-01T00:00:00,5Z",
        "2026-01-01T00:00:00+0100",
        "",
    ],
    "datetime": ["2026-01-01T00:00:00Z", "x"],
    "k8s-short-name": ["a", "a.b", "-a", "A", LONG],
    "k8s-long-name": ["a", "a.b", "-a", "A", "a..b"],
    "quantity": ["1", "x"],
    "int32": ["x"],
    "int-or-string": ["x"],
    "ulid": ["x", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
}


async def test_a_format_accepts_the_same_strings(s: Session) -> None:
    fields = {f"f{index}": {"type": "string", "format": name} for index, name in enumerate(TEXTS)}
    await s.define(definition(s.group, {"type": "object", "properties": fields}))
    path = s.path(things(s.group))
    for field, (name, texts) in zip(fields, TEXTS.items(), strict=True):
        for text in texts:
            body = thing(s.group, **{field: text})
            answer = await s.ask("POST", path, body, silent=True, dryRun="All")
            said = answer.body["message"].partition("is invalid: ")[2] if answer.status != 201 else ""
            s.check_step({"format": name, "text": text, "status": answer.status, "message": said})


async def test_a_too_long_string_or_list_is_reported_with_its_other_errors(s: Session) -> None:
    mac = {"type": "string", "format": "mac", "maxLength": 1, "pattern": "^0"}
    few = {"type": "array", "maxItems": 1, "items": {"type": "integer"}}
    await s.define(definition(s.group, {"type": "object", "properties": {"mac": mac, "few": few}}))
    await s.create(thing(s.group, mac="5s"))
    await s.create(thing(s.group, few=[1, "b", "c"]))


async def test_applying_null_to_an_absent_field_is_refused(s: Session) -> None:
    await s.define(definition(s.group, {"type": "object", "properties": {"size": {"type": "integer"}}}))
    path = f"{s.path(things(s.group))}/t"
    for spec in (None, {"size": None}):
        body = thing(s.group) | {"spec": spec}
        await s.ask("PATCH", path, body, content_type="application/apply-patch+yaml", fieldManager="me")
