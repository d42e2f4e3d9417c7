"""Users, permissions, virtual hosts and tokens."""

from __future__ import annotations

from typing import Any, Final

import click

from annulet.cli.remote.confirming import confirm
from annulet.cli.remote.contexts import read_password_file
from annulet.cli.remote.failures import usage
from annulet.cli.remote.options import OWN_API, Remote, remote_options
from annulet.cli.remote.text import at_terminal, counted, time_text

EXPRESSION = "Regular expression for names.  [default: nothing]"


def new_password(path: str, name: str) -> str:
    """Return a new password: of a file, or asked for twice. Raises ``Failure`` (usage) without a terminal."""
    if path:
        return read_password_file(path)
    if not at_terminal():
        raise usage("there is no terminal to ask for the new password at; give --new-password-file FILE")
    asked: str = click.prompt(f"New password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    return asked


NEW_PASSWORD = click.option(
    "--new-password-file", default="", metavar="FILE", help="Its first line is the new password; else it is asked for."
)


@click.command()
@remote_options
def users(remote: Remote) -> None:
    """List users."""
    remote.output.items(
        remote.client.pages(*OWN_API, "users"),
        [(title, title) for title in ("name", "tags", "source", "has_password", "connections", "limits")],
    )


@click.group()
def user() -> None:
    """Create a user, set its password and tags, delete it."""


@user.command()
@click.argument("name")
@click.option("--tags", default="", metavar="A,B", help="management, for commands and the console, …")
@click.option("--no-password", is_flag=True, help="No password lets the user in: for certificates and tokens.")
@NEW_PASSWORD
@remote_options
def create(remote: Remote, name: str, tags: str, new_password_file: str, *, no_password: bool) -> None:
    """Create a user. It may do nothing until it gets permissions: annulet permission set.

    Clients need no tag. These commands and the web console take one: management for what the permissions allow.
    """
    if any(each["name"] == name for each in remote.client.pages(*OWN_API, "users", query={"name": name})):
        raise usage(f"user {name!r} exists; change it with: annulet user password, annulet user tags")
    body: dict[str, Any] = {"tags": _tags(tags)}
    if no_password:
        body["password_hash"] = ""
    else:
        body["password"] = new_password(new_password_file, name)
    remote.client.ask("PUT", (*OWN_API, "users", name), body)
    remote.output.done(f"created user {name!r}", name=name, created=True)


@user.command()
@click.argument("name")
@NEW_PASSWORD
@remote_options
def password(remote: Remote, name: str, new_password_file: str) -> None:
    """Set the password of a user."""
    remote.client.get(*OWN_API, "users", name)
    remote.client.ask("PUT", (*OWN_API, "users", name), {"password": new_password(new_password_file, name)})
    remote.output.done(f"password of user {name!r} set", name=name)


@user.command()
@click.argument("name")
@click.argument("given", nargs=-1, metavar="[TAG]...")
@click.option("--none", is_flag=True, help="Take all tags away.")
@remote_options
def tags(remote: Remote, name: str, given: tuple[str, ...], *, none: bool) -> None:
    """Set the tags of a user: management, monitoring, administrator, …; those not given are taken away."""
    if none is bool(given):
        raise usage("give the tags, or --none: one of the two; annulet users lists those that there are")
    remote.client.get(*OWN_API, "users", name)
    described = remote.client.ask("PUT", (*OWN_API, "users", name), {"tags": list(given)}).content
    remote.output.done(f"tags of user {name!r}: {', '.join(given) or 'none'}", name=name, tags=described["tags"])


@user.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Also if no administrator is left.")
@remote_options
def delete(remote: Remote, name: str, *, force: bool) -> None:
    """Delete a user with its permissions and tokens. Its connections are closed at once."""
    found = remote.client.get(*OWN_API, "users", name)
    confirm(remote, f"delete user {name!r} and close its {counted(found['connections'], 'connection')}", name)
    query = {"force": "true"} if force else {}
    remote.client.ask("DELETE", (*OWN_API, "users", name), query=query)
    remote.output.done(f"deleted user {name!r}", name=name)


@click.command()
@click.option("--of", "of_user", default="", metavar="USER", help="Only this user's.")
@remote_options
def permissions(remote: Remote, of_user: str) -> None:
    """List permissions: of all virtual hosts, or of --vhost."""
    query = {"vhost": remote.vhost} if remote.vhost_given else {}
    if of_user:
        query["user"] = of_user
    remote.output.items(
        remote.client.pages(*OWN_API, "permissions", query=query),
        [(title, title) for title in ("user", "vhost", *KINDS)],
    )


KINDS: Final = ("configure", "write", "read", "browse", "manage")


@click.group()
def permission() -> None:
    """Set and clear what a user may do in a virtual host."""


@permission.command("set")
@click.argument("name", metavar="USER")
@click.option("--configure", default="", metavar="REGEX", help=EXPRESSION)
@click.option("--write", default="", metavar="REGEX", help=EXPRESSION)
@click.option("--read", default="", metavar="REGEX", help=EXPRESSION)
@click.option("--browse", default="", metavar="REGEX", help="Queues to look into; those to read are among them.")
@click.option("--manage", default="", metavar="REGEX", help="Queues for operations; those to configure are among them.")
@remote_options
def set_permission(remote: Remote, name: str, **expressions: str) -> None:
    """Set the permissions of a user in the virtual host; those not given allow nothing.

    annulet permission set app -V shop --write "orders.*" --read ".*"
    """
    body = {kind: expressions[kind] for kind in KINDS}
    if not any(body.values()):
        raise usage(f"give {', '.join(f'--{kind}' for kind in KINDS)}; annulet permission clear takes all of them away")
    remote.client.ask("PUT", (*OWN_API, "permissions", remote.vhost, name), body)
    remote.output.done(f"permissions of user {name!r} in {remote.vhost!r} set", user=name, vhost=remote.vhost, **body)


@permission.command("clear")
@click.argument("name", metavar="USER")
@remote_options
def clear_permission(remote: Remote, name: str) -> None:
    """Take all permissions of a user in the virtual host away. Its connections there are closed."""
    known = remote.client.get(*OWN_API, "permissions", remote.vhost, name)
    lines = [f"{kind}: {known[kind]!r}" for kind in KINDS if known.get(kind)]
    confirm(remote, f"take the permissions of user {name!r} in virtual host {remote.vhost!r} away", name, lines)
    remote.client.ask("DELETE", (*OWN_API, "permissions", remote.vhost, name))
    remote.output.done(f"cleared permissions of user {name!r} in {remote.vhost!r}", user=name, vhost=remote.vhost)


@click.command()
@remote_options
def vhosts(remote: Remote) -> None:
    """List virtual hosts."""
    remote.output.items(
        remote.client.pages(*OWN_API, "virtual-hosts"),
        [(title, title) for title in ("name", "description", "queues", "connections", "limits", "deleting")],
    )


@click.group()
def vhost() -> None:
    """Create and delete virtual hosts."""


@vhost.command("create")
@click.argument("name")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@remote_options
def create_vhost(remote: Remote, name: str, description: str) -> None:
    """Create a virtual host. You get all permissions there."""
    body = {"description": description} if description else {}
    answer = remote.client.ask("PUT", (*OWN_API, "virtual-hosts", name), body)
    made = answer.status == 201
    remote.output.done(f"virtual host {name!r} {'created' if made else 'exists already'}", name=name, created=made)


@vhost.command("delete")
@click.argument("name")
@remote_options
def delete_vhost(remote: Remote, name: str) -> None:
    """Delete a virtual host with all its queues and messages, and close its connections."""
    found = remote.client.get(*OWN_API, "virtual-hosts", name)
    queues = [] if remote.yes else list(remote.client.pages("api", "queues", name, query={"columns": "name,messages"}))
    messages = sum(each.get("messages", 0) for each in queues)
    lines = [f"queue {each['name']!r}: {counted(each.get('messages', 0), 'message')}" for each in queues]
    what = f"delete virtual host {name!r} with {counted(found['queues'], 'queue')} and {counted(messages, 'message')}"
    confirm(remote, f"{what}, and close its {counted(found['connections'], 'connection')}", name, lines)
    answer = remote.client.ask("DELETE", (*OWN_API, "virtual-hosts", name))
    done = bool(answer.content["deleted"])
    remote.output.done(
        f"deleted virtual host {name!r}" if done else f"virtual host {name!r} is being deleted", name=name, deleted=done
    )


@click.command()
@click.option("--of", "of_user", default="", metavar="USER", help="Only this user's.")
@remote_options
def tokens(remote: Remote, of_user: str) -> None:
    """List tokens, without their texts."""
    query = {"user": of_user} if of_user else {}
    found = list(remote.client.pages(*OWN_API, "tokens", query=query))
    if not remote.output.as_json:
        found = [{**each, "ends": time_text(each["expires_at"]) if each["expires_at"] else "never"} for each in found]
    titles = ("user", "name", "operations", "virtual_hosts", "tags", "ends")
    remote.output.items(found, [(title, title) for title in titles])


@click.group()
def token() -> None:
    """Create and delete tokens: passwords for programs, with a scope and an end."""


@token.command("create")
@click.argument("name")
@click.option("--of", "of_user", default="", metavar="USER", help="The user.  [default: yourself]")
@click.option("--operations", default="", metavar="A,B", help="Some of configure,write,read.  [default: all]")
@click.option("--vhosts", "hosts", multiple=True, metavar="NAME", help="Only there; repeat it.  [default: all]")
@click.option("--tags", default="", metavar="A,B", help="The user's tags that it has too.  [default: none]")
@click.option("--seconds", type=click.IntRange(1), help="It ends after so long.  [default: never]")
@remote_options
def create_token(
    remote: Remote, name: str, of_user: str, operations: str, hosts: tuple[str, ...], tags: str, seconds: int | None
) -> None:
    """Create a token and print its text, which is shown only now. One of this name is replaced."""
    owner = of_user or remote.target.user
    body: dict[str, Any] = {"virtual_hosts": list(hosts), "tags": _tags(tags)}
    if operations:
        body["operations"] = _tags(operations)
    if seconds is not None:
        body["seconds"] = seconds
    answer = remote.client.ask("PUT", (*OWN_API, "tokens", owner, name), body).content
    if remote.output.as_json:
        remote.output.json(answer)
    else:
        click.echo(answer["token"])


@token.command("delete")
@click.argument("name")
@click.option("--of", "of_user", default="", metavar="USER", help="The user.  [default: yourself]")
@remote_options
def delete_token(remote: Remote, name: str, of_user: str) -> None:
    """Delete a token. Its connections are closed."""
    owner = of_user or remote.target.user
    remote.client.get(*OWN_API, "tokens", owner, name)
    confirm(remote, f"delete token {name!r} of user {owner!r} and close its connections", name)
    remote.client.ask("DELETE", (*OWN_API, "tokens", owner, name))
    remote.output.done(f"deleted token {name!r} of user {owner!r}", user=owner, name=name)


def _tags(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
