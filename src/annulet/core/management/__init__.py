"""Management of queues and their messages: selected, previewed, done in slices, counted truthfully and audited."""

from annulet.core.management.actions import Find
from annulet.core.management.commands import (
    cancel_scheduled,
    change_priority,
    copy_messages,
    delete_messages,
    deliver_scheduled,
    expire_messages,
    move_messages,
    pause_queue,
    purge,
    reset_groups,
    resume_queue,
    retry_messages,
    send_to_dead_letters,
)
from annulet.core.management.operation import MessageFacts, Operation, Preview, PreviewResult, Progress
from annulet.core.management.selection import Selection, select
from annulet.core.management.tasks import Tasks

__all__ = [
    "Find",
    "MessageFacts",
    "Operation",
    "Preview",
    "PreviewResult",
    "Progress",
    "Selection",
    "Tasks",
    "cancel_scheduled",
    "change_priority",
    "copy_messages",
    "delete_messages",
    "deliver_scheduled",
    "expire_messages",
    "move_messages",
    "pause_queue",
    "purge",
    "reset_groups",
    "resume_queue",
    "retry_messages",
    "select",
    "send_to_dead_letters",
]
