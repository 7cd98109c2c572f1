//! Tokens: a client proves with one that it receives at its address, before the server keeps any state for it. A server
//! proves with one that it was a connection's peer, after it has lost all state.

use std::net::{IpAddr, SocketAddr};

use ring::hmac;

use crate::header::{Cid, TOKEN_LEN};

/// Seconds that a token is valid.
const LIFETIME_SECS: u32 = 10;

/// Makes tokens and checks them; keeps no other state.
#[derive(Debug)]
pub(crate) struct Tokens {
    key: hmac::Key,
}

impl Tokens {
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret) }
    }

    /// Returns a token for a client at an address: the time in seconds, and a code over time, address and
    /// connection ID.
    pub(crate) fn issue(&self, now_secs: u32, client: SocketAddr, cid: Cid) -> [u8; TOKEN_LEN] {
        let mut token = [0; TOKEN_LEN];
        let (time, code) = token.split_at_mut(4);
        time.copy_from_slice(&now_secs.to_be_bytes());
        let made = self.code(now_secs, client, cid);
        for (byte, made) in code.iter_mut().zip(made.as_ref()) {
            *byte = *made;
        }
        token
    }

    /// Returns whether a token was issued to this client lately.
    pub(crate) fn is_valid(&self, now_secs: u32, client: SocketAddr, cid: Cid, token: &[u8]) -> bool {
        let Some((time, code)) = token.split_first_chunk() else { return false };
        let time = u32::from_be_bytes(*time);
        let expected = self.code(time, client, cid);
        let expected = expected.as_ref().get(..TOKEN_LEN - 4).unwrap_or_default();
        is_same(expected, code) && now_secs.wrapping_sub(time) <= LIFETIME_SECS
    }

    fn code(&self, secs: u32, client: SocketAddr, cid: Cid) -> hmac::Tag {
        let mut context = context_of(&self.key, client, cid);
        context.update(&secs.to_be_bytes());
        context.sign()
    }
}

fn context_of(key: &hmac::Key, client: SocketAddr, cid: Cid) -> hmac::Context {
    let mut context = hmac::Context::with_key(key);
    match client.ip().to_canonical() {
        IpAddr::V4(v4) => context.update(&v4.octets()),
        IpAddr::V6(v6) => context.update(&v6.octets()),
    }
    context.update(&client.port().to_be_bytes());
    context.update(&cid.to_be_bytes());
    context
}

/// Length of the token in a Reset.
pub(crate) const RESET_TOKEN_LEN: usize = 16;

/// Proves that its sender has the private key of a connection's server: that it is the server after a new start.
pub(crate) type ResetToken = [u8; RESET_TOKEN_LEN];

/// Makes the tokens of Resets. All processes with a private key make the same.
#[derive(Debug)]
pub(crate) struct ResetTokens {
    key: hmac::Key,
}

impl ResetTokens {
    pub(crate) fn new(private_key: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, private_key);
        let derived = hmac::sign(&key, b"strandline reset tokens");
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()) }
    }

    /// Returns the token of a connection of this side, for the peer at an address. At any other address it is
    /// another one: nobody gets it by a question from elsewhere.
    pub(crate) fn of(&self, cid: Cid, peer: SocketAddr) -> ResetToken {
        let mut token = [0; RESET_TOKEN_LEN];
        let made = context_of(&self.key, peer, cid).sign();
        token.iter_mut().zip(made.as_ref()).for_each(|(byte, made)| *byte = *made);
        token
    }
}

/// Returns whether two tokens are the same, in constant time.
pub(crate) fn is_same(expected: &[u8], token: &[u8]) -> bool {
    expected.len() == token.len() && expected.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests;
