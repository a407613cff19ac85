"""String formats in the schemas of custom kinds.

Names and meanings are those of an API server. Hyphens in a name are ignored, and an unknown format accepts every text.
All checks take time linear in the text.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import date

from job_controller.api_rules import names

Check = Callable[[str], bool]


def has_format(text: str, name: str) -> bool:
    """Return whether a text has a format; `name` is the format's name in the schema."""
    check = _CHECKS.get(name.replace("-", ""))
    return check is None or check(text)


def _matches(pattern: str) -> Check:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


# --- time ----------------------------------------------------------------------------------------------------

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_CLOCK = _matches(r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?([zZ]|[+-][0-9]{2}:[0-9]{2})")
_GO_DURATION = _matches(r"[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
_AMOUNT = re.compile(r"[0-9]\s*([A-Za-zµ]+)")  # matches only the last digit, so that long numbers take linear time
_UNITS = {"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"}
_LONG_UNITS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")  # and all units with these prefixes


def _date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text if text[:4] != "0000" else f"0004{text[4:]}")  # Python has no year 0, a leap year
    except ValueError:
        return False
    return True


def _date_time(text: str) -> bool:
    day, _, clock = text.replace("t", "T").partition("T")
    return _date(day) and _CLOCK(clock)


def _duration(text: str) -> bool:
    units = [unit.lower() for unit in _AMOUNT.findall(text)]
    return _GO_DURATION(text) or any(unit in _UNITS or unit.startswith(_LONG_UNITS) for unit in units)


# --- network -------------------------------------------------------------------------------------------------

_LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
_MAC = _matches(
    r"[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2})(?:\1[0-9A-Fa-f]{2})*|[0-9A-Fa-f]{4}(?:\.[0-9A-Fa-f]{4})+|[0-9A-Fa-f]+"
)
_MAC_BYTES = (6, 8, 20)
_WORD = r"[^\W_]"
_HOST = _matches(rf"{_WORD}(-?{_WORD}{{0,62}})|({_WORD}(([^\W_]|-){{0,61}}{_WORD})?\.)+[^\W\d_]{{2,63}}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_AUTHORITY = _matches(r"([^@/\s]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s\[\]<>\"\\^`{|}/:]*)(:[0-9]*)?")
_NO_PATH = re.compile(r"%(?![0-9A-Fa-f]{2})|[\x00-\x1f\x7f]")
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x80-\U0010ffff-]+"
_QUOTED = r'"(?:[^"\\\x00-\x1f]|\\.)*"'
_ADDRESS = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_ATOM}(?:\.{_ATOM})*|\[[^\[\]\\]*\])"
# Each space matches in only one way, so that backtracking stays linear.
_EMAIL = _matches(rf"\s*(?:{_ADDRESS}|(?:(?:{_ATOM}|{_QUOTED})\s+)*(?:{_ATOM}|{_QUOTED})?<{_ADDRESS}>)\s*")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address. Leading zeros in its decimal numbers are allowed, a zone is not."""
    head, colon, last = text.rpartition(":")
    if "." in last:
        text = head + colon + _LEADING_ZEROS.sub("", last)
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _cidr(text: str) -> bool:
    host, slash, width = text.partition("/")
    address = _address(host)
    if address is None or not slash or not (width.isascii() and width.isdigit() and len(width) < 5):
        return False
    return int(width) <= address.max_prefixlen


def _mac(text: str) -> bool:
    digits = sum(char not in ":-." for char in text)
    return digits % 2 == 0 and digits // 2 in _MAC_BYTES and _MAC(text)


def _uri(text: str) -> bool:
    """Return whether a text is a URI with a scheme, or a path that begins with a slash."""
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() :] if scheme else text
    path, _, _ = rest.partition("?")
    if _NO_PATH.search(path) or not rest.startswith("/"):
        return scheme is not None and not _NO_PATH.search(path)
    if scheme and rest.startswith("//"):
        return _AUTHORITY(path[2:].partition("/")[0].partition("#")[0])
    return True


# --- numbers with a check ------------------------------------------------------------------------------------

_CARD = _matches(
    "4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    "|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35[0-9]{3})[0-9]{11}"
    "|6[27][0-9]{14}"
)
_ISBN10, _ISBN13 = _matches("[0-9]{9}[0-9X]"), _matches("[0-9]{13}")


def _credit_card(text: str) -> bool:
    digits = "".join(char for char in text if char in "0123456789")
    doubled = [int(char) * (1 + index % 2) for index, char in enumerate(reversed(digits))]
    return _CARD(digits) and sum(number % 10 + number // 10 for number in doubled) % 10 == 0


def _isbn10(text: str) -> bool:
    text = text.replace("-", "").replace(" ", "")
    numbers = [10 if char == "X" else int(char) for char in text] if _ISBN10(text) else [1]
    return sum((index + 1) * number for index, number in enumerate(numbers)) % 11 == 0


def _isbn13(text: str) -> bool:
    text = text.replace("-", "").replace(" ", "")
    return _ISBN13(text) and sum(int(char) * (1 + 2 * (index % 2)) for index, char in enumerate(text)) % 10 == 0


# --- all of them ---------------------------------------------------------------------------------------------

_HEX = "[0-9a-fA-F]"
_COLOR = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*"


def _uuid(version: str = _HEX, variant: str = _HEX) -> Check:
    return _matches(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{version}{_HEX}{{3}}-?{variant}{_HEX}{{3}}-?{_HEX}{{12}}")


_CHECKS: dict[str, Check] = {
    "bsonobjectid": _matches(f"{_HEX}{{24}}"),
    "byte": _matches(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": _cidr,
    "creditcard": _credit_card,
    "date": _date,
    "datetime": _date_time,
    "duration": _duration,
    "email": _EMAIL,
    "hexcolor": _matches(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": lambda text: len(text) <= 255 and _HOST(text),
    "ipv4": lambda text: "." in text and _address(text) is not None,
    "ipv6": lambda text: ":" in text and _address(text) is not None,
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "k8slongname": lambda text: not names.dns_subdomain(text),
    "k8sshortname": lambda text: not names.dns_label(text),
    "mac": _mac,
    "rgbcolor": _matches(rf"rgb\({_COLOR},{_COLOR},{_COLOR}\)"),
    "ssn": lambda text: len(text) == 11 and re.fullmatch("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}", text) is not None,
    "uri": _uri,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89abAB]"),
    "uuid5": _uuid("5", "[89abAB]"),
}
