"""The web console: its files, sign-in, streams of figures and history. The pages use the API as any client does."""
