//! Who the peer of a connection is, and whether it is trusted.

use std::net::SocketAddr;

use rustls_pki_types::UnixTime;

use super::{Connection, Context, Role};
use crate::control::Control;
use crate::failure::Failure;
use crate::trust::{Peer, Trust, TrustError};

impl Connection {
    /// Returns whether the peer is the server that the user wants to reach at an address: this side has verified it as
    /// such, or would. A client is trusted under any name, and may be at any address.
    pub(crate) fn is_server(
        &self,
        address: SocketAddr,
        name: Option<&str>,
        trust: &Trust,
        now: UnixTime,
    ) -> bool {
        match &self.role {
            Role::Client { name: verified } if verified.as_deref() == name => true,
            _ => trust.verify(Peer::Server { address, name }, &self.certificate, now).is_ok(),
        }
    }

    /// Returns the part that the peer plays.
    fn peer(&self) -> Result<Peer<'_>, Failure> {
        Ok(match &self.role {
            Role::Server => Peer::Client,
            Role::Client { name } => {
                let address = self.paths.known().next().ok_or(Failure::Closed)?;
                Peer::Server { address, name: name.as_deref() }
            }
        })
    }

    /// Verifies the peer once more, after a change of what is trusted. Ends the connection with a reason if it fails.
    pub(crate) fn check_again(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let verified = cx.trust.verify(self.peer()?, &self.certificate, cx.wall);
        let error = match verified {
            Ok(verified) => {
                cx.learned.extend(verified.learned);
                return Ok(());
            }
            Err(_) if self.identity.is_none() && (cx.anonymous_clients || !self.is_established) => {
                return Ok(());
            }
            Err(error) => error,
        };
        if self.role == Role::Server && self.is_established {
            return self.refuse(cx, error);
        }
        self.close(cx);
        Err(error.into())
    }

    /// Ends the connection with a client, which is told so.
    fn refuse(&mut self, cx: &mut Context<'_>, error: TrustError) -> Result<(), Failure> {
        if !self.is_plain {
            let destination = self.paths.primary().ok_or(Failure::Closed)?;
            self.send(cx, &Control::Refuse.to_bytes(), destination, self.local);
        }
        self.close(cx);
        Err(error.into())
    }

    pub(super) fn on_certificate(&mut self, cx: &mut Context<'_>, certificate: &[u8]) -> Result<(), Failure> {
        let verified = cx.trust.verify(self.peer()?, certificate, cx.wall);
        match verified {
            Ok(verified) => {
                cx.learned.extend(verified.learned);
                self.identity = Some(verified.identity);
                self.certificate = certificate.to_vec();
                Ok(())
            }
            // A client believes to be connected before the server has seen its certificate: it must be told.
            Err(error) if self.role == Role::Server => {
                self.refused = Some(error);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}
