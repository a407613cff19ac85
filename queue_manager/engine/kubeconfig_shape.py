"""The types of a kubeconfig's fields, as far as we read them. Like kubectl, we refuse a number where a string
belongs.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _KebabStruct(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of parts with kebab-case field names. Null is the same as absent, everywhere."""


class _Extension(msgspec.Struct, frozen=True):
    name: str | None = None
    extension: Any = None


class _Cluster(_KebabStruct, frozen=True):
    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: list[_Extension] | None = None


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str | None = None


class _Exec(msgspec.Struct, frozen=True, rename="camel"):
    command: str
    api_version: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str | None = None
    interactive_mode: str | None = None
    provide_cluster_info: bool | None = None


class _User(_KebabStruct, frozen=True):
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    as_: str | None = msgspec.field(name="as", default=None)
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    exec: _Exec | None = None
    auth_provider: dict[str, Any] | None = None


class _Context(msgspec.Struct, frozen=True):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _Context | None = None


class _File(_KebabStruct, frozen=True):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


def shape_error(tree: object) -> str:
    """The first type error of a kubeconfig, with its path, or "". Values are not included: some are secrets."""
    try:
        msgspec.convert(tree, _File)
    except msgspec.ValidationError as error:
        return str(error)
    return ""
