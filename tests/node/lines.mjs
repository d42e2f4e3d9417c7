// A client that does what it is told: a command in JSON a line in, an answer a line out. tests/clients/driven.py is the
// other end. Values that JSON has no type for are objects with one key, their AMQP 1.0 type.

import { createInterface } from "node:readline";

/** What the peer refused, with its condition; or what did not happen in time. */
export class CommandError extends Error {
  constructor(text, condition = "") {
    super(text);
    this.condition = condition;
  }
}

/** Resolves when `condition` holds, which is asked after each event that calls `wake` and fails after `seconds`. */
export class Waiting {
  constructor() {
    this.waiters = new Set();
  }

  wake() {
    for (const waiter of [...this.waiters]) waiter();
  }

  until(condition, seconds, what) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiters.delete(look);
        reject(new CommandError(`nothing within ${seconds} seconds: ${what}`, "timeout"));
      }, seconds * 1000);
      const look = () => {
        if (!condition()) return;
        clearTimeout(timer);
        this.waiters.delete(look);
        resolve();
      };
      this.waiters.add(look);
      look();
    });
  }
}

/** Answers the commands of the standard input, one after the other, with the functions of `commands`. */
export async function serve(commands) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: name, ...given } = JSON.parse(line);
    let answer;
    try {
      answer = { result: (await commands[name](given)) ?? null };
    } catch (error) {
      if (!(error instanceof CommandError)) console.error(error);
      answer = { error: String(error.message), condition: error.condition ?? "" };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  process.exit(0);
}
