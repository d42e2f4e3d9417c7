"""``annulet context …``: named brokers with their logins, kept in a file of the user's."""

from __future__ import annotations

import os
from dataclasses import replace

import click

from annulet.cli.remote.confirming import confirm
from annulet.cli.remote.contexts import Context, check_context_name, contexts_path, load_contexts
from annulet.cli.remote.failures import usage
from annulet.cli.remote.options import Remote, remote_options
from annulet.cli.remote.output import Output
from annulet.cli.remote.target import read_url
from annulet.cli.remote.text import at_terminal

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


@click.group()
def context() -> None:
    """Keep addresses and logins of brokers under names, in ~/.config/annulet/contexts.toml."""


@context.command()
@click.argument("name")
@click.option("--url", required=True, metavar="URL", help="The broker's HTTP address: https://HOST:PORT.")
@click.option("--user", "-u", required=True, metavar="NAME", help="Log in as.")
@click.option("--password-file", default="", metavar="FILE", help="Its first line is the password; read at each use.")
@click.option("--no-password", is_flag=True, help="Keep none: each command asks, or gets it from its options.")
@click.option("--ca-file", default="", metavar="FILE", help="Certificates to trust, for https.")
@click.option("--vhost", "-V", default="", metavar="NAME", help="The virtual host of commands that name none.")
@JSON_OPTION
def add(name: str, *, as_json: bool, no_password: bool, **members: str) -> None:
    """Add a context, or replace the one of this name. The first one becomes the current one.

    Without --password-file the password is asked for and kept in the file, which only you can read.
    """
    check_context_name(name)
    read_url(members["url"])
    added = Context(**members)
    if added.password_file and no_password:
        raise usage("--password-file and --no-password are given; give one of them")
    if added.password_file:
        added = replace(added, password_file=os.path.abspath(os.path.expanduser(added.password_file)))  # noqa: PTH100, PTH111 - no symbolic links followed
    elif not no_password:
        if not at_terminal():
            raise usage("there is no terminal to ask for the password at; give --password-file or --no-password")
        added = replace(added, password=click.prompt("Password", hide_input=True, err=True))
    contexts = load_contexts(contexts_path(os.environ))
    contexts.items[name] = added
    contexts.current = contexts.current or name
    contexts.save()
    Output(as_json=as_json).done(f"added context {name!r}", name=name, current=contexts.current == name)


@context.command()
@click.argument("name")
@JSON_OPTION
def use(name: str, *, as_json: bool) -> None:
    """Make a context the current one: commands without --url and --context mean it."""
    contexts = load_contexts(contexts_path(os.environ))
    contexts.named(name)
    contexts.current = name
    contexts.save()
    Output(as_json=as_json).done(f"using context {name!r}", name=name, current=True)


@context.command("list")
@JSON_OPTION
def list_command(*, as_json: bool) -> None:
    """List the contexts, without passwords."""
    contexts = load_contexts(contexts_path(os.environ))
    items = [
        {
            "name": name,
            "current": name == contexts.current,
            "url": each.url,
            "user": each.user,
            "vhost": each.vhost or "/",
            "password": "file" if each.password_file else "kept" if each.password else "none",
        }
        for name, each in sorted(contexts.items.items())
    ]
    Output(as_json=as_json).items(
        items, [(title, title) for title in ("name", "current", "url", "user", "vhost", "password")]
    )


@context.command()
@click.argument("name")
@remote_options
def remove(remote: Remote, name: str) -> None:
    """Remove a context."""
    contexts = load_contexts(contexts_path(os.environ))
    confirm(remote, f"remove context {name!r} of {contexts.named(name).url}", name)
    del contexts.items[name]
    if contexts.current == name:
        contexts.current = ""
    contexts.save()
    remote.output.done(f"removed context {name!r}", name=name)
