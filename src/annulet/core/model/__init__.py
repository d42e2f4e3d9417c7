"""The nouns that queues are built of: entries, consumers, effects, events, and the trails of losses and audits."""
