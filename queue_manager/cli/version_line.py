"""What `sluice --version` says: the version, the commit if it is known, and the Python that runs it."""

from __future__ import annotations

import json
import platform
import subprocess
from importlib.metadata import distribution
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
BUILT_FROM = Path(__file__).parents[1] / "COMMIT"  # by hatch_build.py, or by deploy/Containerfile
COMMIT_DIGITS = 12
GIT_SECONDS = 2.0


def version_line() -> str:
    """`sluice 0.1.0 (commit 0123456789ab), Python 3.12.3`."""
    commit = installed_commit() or checked_out_commit() or built_commit()
    of = f" (commit {commit[:COMMIT_DIGITS]})" if commit else ""
    return f"sluice {distribution('sluice').version}{of}, Python {platform.python_version()}"


def installed_commit() -> str:
    """Return the commit that pip recorded for `pip install git+URL` (PEP 610); "" without one."""
    text = distribution("sluice").read_text("direct_url.json")
    recorded = json.loads(text).get("vcs_info", {}) if text else {}
    return str(recorded.get("commit_id", ""))


def built_commit() -> str:
    """Return the commit of the checkout from which the wheel or the image was built; "" if it is unknown."""
    try:
        return BUILT_FROM.read_text().strip()
    except OSError:
        return ""


def checked_out_commit() -> str:
    """Return the commit of the checkout that runs; "" if it is not a checkout, or git is missing."""
    if not (CHECKOUT / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", str(CHECKOUT), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
