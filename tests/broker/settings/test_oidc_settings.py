"""The section [oidc]."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from annulet.broker.settings.configuration import TAGS, ConfigurationError, load
from annulet.broker.settings.oidc_settings import ALGORITHMS, CLOCK_SKEW_MAX, OidcSection, oidc_settings

DOCS = Path(__file__).parents[3] / "docs"
LEAST = 'issuer = "https://login.example.com"\naudience = "annulet"\n'


def read(tmp_path: Path, text: str, section: str = LEAST) -> object:
    file = tmp_path / "annulet.toml"
    file.write_text(f"[oidc]\n{section}{text}")
    return load(file).oidc


def why_not(tmp_path: Path, text: str, section: str = LEAST) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text, section)
    assert str(tmp_path) in str(caught.value)
    return str(caught.value)


def test_without_a_section_it_is_off() -> None:
    assert load().oidc is None
    assert oidc_settings(OidcSection(), TAGS) is None


def test_defaults(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)
    assert settings.issuer == "https://login.example.com"
    assert settings.scope_prefix == "annulet."
    assert settings.user_claim == "sub"
    assert settings.scope_claims == ("scope", "scp")
    assert settings.algorithms == ALGORITHMS
    assert not [name for name in settings.algorithms if name.startswith(("HS", "none"))]
    assert settings.clock_skew == 30


def load_settings(tmp_path: Path, text: str = ""):
    settings = read(tmp_path, text)
    assert settings is not None
    return settings


def test_all_settings(tmp_path: Path) -> None:
    settings = load_settings(
        tmp_path,
        'ca_file = "ca.pem"\nuser_claim = "name"\nscope_claims = ["roles"]\nscope_prefix = ""\nalgorithms = ["ES256"]\n'
        f"clock_skew = {CLOCK_SKEW_MAX}\n",
    )
    assert settings.ca_file == tmp_path / "ca.pem"
    assert (settings.user_claim, settings.scope_claims, settings.scope_prefix) == ("name", ("roles",), "")
    assert settings.algorithms == ("ES256",)
    assert settings.clock_skew == CLOCK_SKEW_MAX


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ('audience = "annulet"\n', "oidc.issuer is missing"),
        ('issuer = "https://i.example"\n', "oidc.audience is missing"),
        ('issuer = "http://i.example"\naudience = "a"\n', "no https:// address"),
        ('issuer = "i.example"\naudience = "a"\n', "no https:// address"),
        ('issuer = "https://[::1"\naudience = "a"\n', "no address"),
    ],
)
def test_the_issuer_is_checked(tmp_path: Path, section: str, reason: str) -> None:
    assert reason in why_not(tmp_path, "", section)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080"])
def test_an_issuer_of_this_machine_needs_no_tls(tmp_path: Path, host: str) -> None:
    assert read(tmp_path, "", f'issuer = "http://{host}/r"\naudience = "a"\n')


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('algorithms = ["none"]\n', "'none' is not allowed"),
        ('algorithms = ["RS256", "HS256"]\n', "'HS256' is not allowed"),
        ("algorithms = []\n", "oidc.algorithms is empty"),
        ('user_claim = ""\n', "oidc.user_claim is empty"),
        ("clock_skew = -1\n", "clock_skew=-1"),
        (f"clock_skew = {CLOCK_SKEW_MAX + 1}\n", f"clock_skew={CLOCK_SKEW_MAX + 1}"),
        ('[oidc.scopes.a]\ntags = ["root"]\n', "unknown tag 'root'"),
        ('[oidc.scopes.a.permissions."/"]\nread = "("\n', "oidc.scopes.a.permissions./.read"),
        ("clock = 1\n", "did you mean 'clock_skew'"),
    ],
)
def test_wrong_settings_name_their_remedy(tmp_path: Path, text: str, reason: str) -> None:
    assert reason in why_not(tmp_path, text)


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    block = re.search(r"```toml\n(.*?)```", (DOCS / "access-tokens.md").read_text(), re.DOTALL)
    assert block is not None
    file = tmp_path / "annulet.toml"
    file.write_text(block[1])
    settings = load(file).oidc
    assert settings is not None
    assert settings.scopes["warehouse"].permissions["/"].write == r"^warehouse\.|^amq\.default$"
