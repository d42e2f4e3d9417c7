// SCRAM (RFC 5802, 7677) as a SASL mechanism that rhea can be given; it has none of its own.

import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";

const HASHES = { "SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512" };

/** The mechanisms for `sasl_mechanisms`: this one only, so that the peer has to have it. */
export function scramMechanism(name, user, password) {
  return { [name]: () => new Scram(HASHES[name], user, password) };
}

class Scram {
  constructor(hash, user, password) {
    Object.assign(this, { hash, password });
    this.nonce = randomBytes(18).toString("base64");
    this.bare = `n=${user.replaceAll("=", "=3D").replaceAll(",", "=2C")},r=${this.nonce}`;
  }

  start(done) {
    done(undefined, Buffer.from(`n,,${this.bare}`));
  }

  step(challenge, done) {
    const text = challenge.toString();
    const fields = Object.fromEntries(text.split(",").map((field) => [field[0], field.slice(2)]));
    if ("v" in fields) {
      done(fields.v === this.signature ? undefined : "the server does not know the password", Buffer.alloc(0));
      return;
    }
    if (!fields.r?.startsWith(this.nonce)) {
      done("the server changed our nonce");
      return;
    }
    const hmac = (key, data) => createHmac(this.hash, key).update(data).digest();
    const length = this.hash === "sha256" ? 32 : 64;
    const salted = pbkdf2Sync(this.password, Buffer.from(fields.s, "base64"), Number(fields.i), length, this.hash);
    const clientKey = hmac(salted, "Client Key");
    const storedKey = createHash(this.hash).update(clientKey).digest();
    const final = `c=${Buffer.from("n,,").toString("base64")},r=${fields.r}`;
    const signed = `${this.bare},${text},${final}`;
    const signature = hmac(storedKey, signed);
    const proof = clientKey.map((octet, index) => octet ^ signature[index]);
    this.signature = hmac(hmac(salted, "Server Key"), signed).toString("base64");
    done(undefined, Buffer.from(`${final},p=${Buffer.from(proof).toString("base64")}`));
  }
}
